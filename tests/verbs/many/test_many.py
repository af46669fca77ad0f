"""One command on several models: a row for each, whatever becomes of it; nothing is lost by a stop."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest

from onnx_text import model_of, saved
from ortune import monotonic, records, verbs
from ortune.errors import Stopped, UsageError
from ortune.measuring.clock import Stopwatch
from ortune.measuring.watcher import Watcher
from ortune.records import ManyResult
from ortune.step import Step
from ortune.verbs._many import executor
from ortune.verbs._many.batch import batch
from ortune.verbs._many.executor import Done, Job, Jobs
from ortune.verbs._many.journal import state
from ortune.verbs._many.run import exit_code, run
from ortune.verbs.bench.options import Options as BenchOptions
from simulated_machine import Lab, measuring_on
from within import program

CHAIN = "{} (float[N,8] x) => (float[N,8] y) {{ a = Relu (x) y = {} (a) }}"
OPERATORS = ("Abs", "Cos", "Elu", "Erf", "Exp", "Neg", "Sigmoid", "Sin", "Softplus", "Tanh")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten models, one file that is none, and one that no ONNX Runtime loads."""
    place = tmp_path_factory.mktemp("models")
    for name in OPERATORS:
        saved(place / f"{name.lower()}.onnx", model_of(CHAIN.format(name.lower(), name)))
    (place / "nomodel.onnx").write_text("hello")
    saved(
        place / "unloadable.onnx",
        model_of("g (float[2,3] x) => (float[5,7] y) { y = Reshape (x, s) }", weights={"s": [5, 7]}),
    )
    return place


def many(out: str) -> tuple[dict[str, Any], ManyResult]:
    document = json.loads(out)
    assert document["schema"] == "ortune/many/1"
    return document, msgspec.convert(document["result"], ManyResult)


def bench(folder: Path, *words: str) -> tuple[int, str, str]:
    with measuring_on(Lab(1)):
        return program(["bench", *words, "--store", str(folder / "store"), "--budget-each", "20s"])


@pytest.fixture(scope="module")
def benched(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, ManyResult]:
    place = tmp_path_factory.mktemp("benched")
    files = [f"{kind}={place / f'out.{kind}'}" for kind in ("csv", "jsonl")]
    words = [str(folder), "--export", files[0], "--export", files[1], "--report", str(place / "all.html")]
    code, out, said = bench(place, *words, "--json")
    document, result = many(out)
    assert (code, document["status"]) == (2, "ok"), said
    return place, said, result


def test_each_model_is_a_row_and_a_failure_is_one_with_its_reason(
    benched: tuple[Path, str, ManyResult], folder: Path
) -> None:
    _, said, result = benched
    assert [Path(row.path).name for row in result.models] == sorted(file.name for file in folder.iterdir())
    rows = {Path(row.path).stem: row for row in result.models}
    for name in OPERATORS:
        row = rows[name.lower()]
        assert (row.status, row.exit_code, row.error) == ("ok", 0, None)
        assert row.figures[0].name == "p50" and row.session and row.sha256
    assert rows["nomodel"].error is not None and "not an ONNX model" in rows["nomodel"].error.what
    assert rows["unloadable"].status == "error" and rows["unloadable"].exit_code == 2
    assert "model 12 of 12" in said


def test_every_answer_has_a_page_that_the_table_links(benched: tuple[Path, str, ManyResult]) -> None:
    place, _, result = benched
    page = (place / "all.html").read_text(encoding="utf-8")
    for row in result.models:
        assert bool(row.page) == (row.status == "ok")
        if row.page:
            assert f'href="all-models/{Path(row.page).name}"' in page
            assert Path(row.page).read_text(encoding="utf-8").startswith("<!doctype html>")


def test_exports_have_each_model(benched: tuple[Path, str, ManyResult]) -> None:
    place, _, result = benched
    lines = [json.loads(line) for line in (place / "out.jsonl").read_text().splitlines()]
    assert [line["schema"] for line in lines] == ["ortune/bench/1"] * 12
    assert [line["status"] for line in lines] == [row.status for row in result.models]
    with (place / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["model"] for row in rows] == [row.path for row in result.models]
    for row, model in zip(rows, result.models, strict=True):
        if model.status == "ok":
            assert float(row["median_ns.value"]) == model.figures[0].value
        else:
            assert row["error"] and row["median_ns.value"] == ""


def test_the_report_shows_all_again(benched: tuple[Path, str, ManyResult]) -> None:
    place, _, result = benched
    code, out, _ = program(["report", result.session, "--store", str(place / "store")])
    assert code == 0 and "12 models" in out and "nomodel.onnx" in out
    code, out, _ = program(["report", "--store", str(place / "store")])
    assert code == 0 and "12 models" in out


class Stopping:
    """Asks to stop once a model was answered, as Ctrl-C does."""

    def __init__(self, after: int, *, at_once: bool) -> None:
        self.after, self.at_once, self.answered = after, at_once, 0

    def execute(self, jobs: Jobs, watcher: Watcher) -> Iterator[Done]:
        while self._goes_on() and (job := jobs.take()) is not None:
            done = executor.run_one(job, watcher)
            self.answered += 1
            yield done

    def _goes_on(self) -> bool:
        if self.at_once and self.answered == self.after:
            raise Stopped("stopped before there was a result")
        return True

    def __call__(self) -> bool:
        return not self.at_once and self.answered >= self.after


def benched_until(
    folder: Path, place: Path, stop: Stopping | None, *, resume: str | None = None
) -> records.Envelope[ManyResult]:
    values = {"model": [str(folder)], "store": str(place / "store"), "budget_each": "20s", "resume": resume}
    asked, _ = batch("bench", BenchOptions, values, {"budget_each"})
    assert asked is not None
    with measuring_on(Lab(1)):
        if stop is None:
            return run(asked, Watcher())
        return run(asked, Watcher(stop=stop), stop.execute)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_stop_keeps_what_is_there_and_resume_adds_the_rest(
    folder: Path, tmp_path: Path, *, at_once: bool
) -> None:
    first = benched_until(folder, tmp_path, Stopping(5, at_once=at_once))
    states = [row.status for row in first.result.models]
    assert (first.status, states.count("missing"), exit_code(first)) == ("interrupted", 7, 130)
    assert "--resume" in first.result.resume
    second = benched_until(folder, tmp_path, None, resume="newest")
    assert (second.status, exit_code(second)) == ("ok", 2)
    assert second.result.models[:5] == first.result.models[:5]
    assert all(row.status != "missing" for row in second.result.models)
    with pytest.raises(UsageError, match="no interrupted session"):
        benched_until(folder, tmp_path, None, resume="newest")


def test_a_model_that_was_written_again_is_run_again(folder: Path, tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    for name in ("abs", "cos", "exp"):
        (models / f"{name}.onnx").write_bytes((folder / f"{name}.onnx").read_bytes())
    first = benched_until(models, tmp_path, Stopping(2, at_once=True))
    (models / "cos.onnx").write_bytes((folder / "tanh.onnx").read_bytes())
    second = benched_until(models, tmp_path, None, resume="newest")
    assert second.result.models[0] == first.result.models[0]
    assert second.result.models[1].sha256 != first.result.models[1].sha256
    assert [row.status for row in second.result.models] == ["ok"] * 3


def test_new_weights_in_external_data_make_a_model_another(tmp_path: Path) -> None:
    weights = {"w": np.ones((64, 64), np.float32)}
    model = model_of("g (float[N,64] x) => (float[N,64] y) { y = MatMul (x, w) }", weights=weights)
    place = tmp_path / "m.onnx"
    onnx.save(model, place, save_as_external_data=True, location="m.data", size_threshold=0)
    before = state(str(place))
    assert before == state(str(place))
    os.utime(tmp_path / "m.data", ns=(1, 1))
    assert state(str(place)) != before
    inside = tmp_path / "inside.onnx"
    inside.write_bytes(b"location")  # what may name other files and is no model
    assert state(str(inside)).startswith("8 ") and state(str(tmp_path / "gone.onnx")) == "-1 -1"


@pytest.mark.parametrize("debug", [False, True])
def test_a_bug_that_one_model_shows_is_its_row(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, debug: bool
) -> None:
    real = verbs.run_verb

    def run_with_a_bug(module: Any, options: Any, *more: Any, **named: Any) -> records.Envelope[Any]:
        if Path(options.model).stem == "cos":
            raise KeyError("no such thing")
        return real(module, options, *more, **named)

    monkeypatch.setattr(verbs, "run_verb", run_with_a_bug)
    if debug:
        monkeypatch.setenv("ORTUNE_DEBUG", "1")
    models = [str(folder / f"{name}.onnx") for name in ("abs", "cos", "nomodel", "exp")]
    code, out, said = bench(tmp_path, *models, "--json")
    rows = many(out)[1].models
    assert (code, [row.exit_code for row in rows]) == (4, [0, 4, 2, 0])
    error = rows[1].error
    assert error is not None and error.code == "internal" and "KeyError: 'no such thing'" in error.what
    assert "ORTUNE_DEBUG=1" in error.do and ("run_with_a_bug" in said) == debug
    assert "ORTUNE_DEBUG=1" in bench(tmp_path, *models)[1]


def test_a_wait_before_a_failure_costs_the_others_no_budget(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0
    monkeypatch.setattr(monotonic, "now_s", lambda: now_s)

    def fails_after_a_wait(module: Any, options: Any, watcher: Watcher, *, clock: Stopwatch) -> None:
        nonlocal now_s
        with clock.stopped():
            now_s += 1000
        now_s += 5
        raise UsageError("failed")

    monkeypatch.setattr(verbs, "run_verb", fails_after_a_wait)
    values = {"model": [str(folder)], "store": str(tmp_path), "budget": "40s"}
    asked, _ = batch("bench", BenchOptions, values, {"budget"})
    assert asked is not None
    states = [row.status for row in run(asked, Watcher()).result.models]
    assert (states.count("error"), states.count("missing")) == (8, 4)


def test_progress_has_the_time_left_to_the_answer_about_all() -> None:
    job = Job(label="2/4 m.onnx", verb="bench", model="m.onnx", values={}, spent_s=10.0, later_s=40.0)
    step = job.of_all(Step(what="running", done_ratio=0.5, left_s=10.0))
    assert (step.what, step.left_s) == ("2/4 m.onnx: running", 50.0)
    assert step.done_ratio == pytest.approx(20 / 70)
    assert job.of_all(Step(what="reading")).left_s is None
    ended = job.of_all(Step(what="writing", done_ratio=1.0, left_s=0.0))
    assert (ended.left_s, ended.done_ratio) == (40.0, pytest.approx(0.2))
