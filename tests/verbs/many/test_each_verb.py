"""Every command that takes several models: its rows, its exit code, and what is refused before anything runs."""

from __future__ import annotations

import contextlib
import itertools
import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import ortune
from onnx_text import model_of, saved
from ortune.api import verbs
from ortune.errors import Stopped, UsageError
from ortune.measuring.watcher import Watcher
from ortune.records import ManyResult
from ortune.show.verb_modules import module_of
from ortune.verbs._many import executor
from ortune.verbs._many.batch import batch
from ortune.verbs._many.executor import Done, Jobs
from ortune.verbs._many.run import run
from ortune.verbs._shared.model_files import found
from ortune.verbs._shared.spelling import Argument, option_fields
from simulated_machine import Lab, measuring_on
from within import program

CHAIN = "{} (float[N,8] x) => (float[N,8] y) {{ a = Relu (x) y = {} (a) }}"
TAKING = {"tune", "bench", "look", "history", "quantize", "partition", "lock", "compare"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models")
    for name in ("Cos", "Tanh"):
        saved(place / f"{name.lower()}.onnx", model_of(CHAIN.format(name.lower(), name)))
    return place


def stopped_after_one(jobs: Jobs, watcher: Watcher) -> Iterator[Done]:
    """A second Ctrl-C, after the first model."""
    yield from itertools.islice(executor.here(jobs, watcher), 1)
    raise Stopped("stopped")


def asked(*words: str | Path) -> tuple[int, ManyResult, str]:
    # A lock and a partition are of no times.
    with measuring_on(Lab(1)) if words[0] not in ("lock", "partition") else contextlib.nullcontext():
        code, out, said = program([*map(str, words), "--json"])
    document = json.loads(out)
    assert document["schema"] == "ortune/many/1", document
    return code, msgspec.convert(document["result"], ManyResult), said


def test_these_commands_take_several_models_and_have_a_row() -> None:
    taking = set()
    for verb in verbs():
        fields = list(option_fields(module_of(verb, "options").Options))
        each = any(isinstance(f.spelling, Argument) and f.spelling.each for f in fields)
        if each or any(field.name == "each" for field in fields):
            taking.add(verb)
            assert callable(module_of(verb, "row").row)
    assert taking == TAKING


def test_compare_makes_the_same_comparison_on_each(folder: Path, tmp_path: Path) -> None:
    words = ["--b-set", "intra=1", "--budget-each", "60s", "--no-why", "--store", tmp_path / "s"]
    code, result, _ = asked("compare", "--each", folder, *words)
    assert (code, [Path(row.path).name for row in result.models]) == (0, ["cos.onnx", "tanh.onnx"])
    for row in result.models:
        assert row.figures[0].unit == "ratio" and row.figures[0].low is not None
        assert row.verdict in row.headline or row.answer in row.headline


def test_files_of_compare_stay_sides_without_each(folder: Path, tmp_path: Path) -> None:
    with measuring_on(Lab(1)):
        words = [str(folder / "cos.onnx"), str(folder / "tanh.onnx"), "--store", str(tmp_path / "s")]
        code, out, _ = program(["compare", *words, "--budget", "60s", "--no-why", "--json"])
    assert json.loads(out)["schema"] == "ortune/compare/1" and code == 0


def test_tune_writes_a_bundle_for_each(folder: Path, tmp_path: Path) -> None:
    words = ["--budget", "180s", "--targets", "cpu", "-o", tmp_path / "out", "--store", tmp_path / "s"]
    code, result, said = asked("tune", folder / "cos.onnx", folder / "tanh.onnx", *words)
    assert code == 0, said
    assert "2 models in 180 s" in said
    for row in result.models:
        assert Path(row.bundle) == tmp_path / "out" / f"{Path(row.path).stem}.ortune"
        assert (Path(row.bundle) / "ortune.json").exists()


def test_lock_writes_and_checks_each_and_the_worst_decides(folder: Path, tmp_path: Path) -> None:
    models = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for model, operator in zip(models, ("Cos", "Sin"), strict=True):
        saved(model, model_of(CHAIN.format("g", operator)))
    code, result, _ = asked("lock", *models)
    assert (code, [row.verdict for row in result.models]) == (0, ["written", "written"])
    assert [row.needs for row in result.models] == [(f"{model}.lock.json",) for model in models]
    saved(models[1], model_of(CHAIN.format("g", "Neg")))
    code, result, _ = asked("lock", "--check", tmp_path)
    assert (code, [row.verdict for row in result.models]) == (1, ["unchanged", "changed"])
    # The last word is the lock file of a single model, as long as it is no model.
    code, out, _ = program(["lock", "--check", str(models[0]), f"{models[0]}.lock.json", "--json"])
    assert (code, json.loads(out)["schema"]) == (0, "ortune/lock/1")


def test_partition_and_look_have_rows(folder: Path, tmp_path: Path) -> None:
    code, result, _ = asked("partition", f"{folder}/*.onnx")
    assert code == 0 and {row.verdict for row in result.models} == {"good"}
    assert all(row.answer == "worth trying" and row.needs for row in result.models)
    _, result, _ = asked("look", folder, "--budget-each", "0", "--store", tmp_path / "s")
    assert all(row.figures for row in result.models)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("tune {0} --budget 1m --budget-each 10s", "--budget-each"),
        ("tune {0} --quick --budget-each 10s", "--quick"),
        ("bench {0} --save-workload w.json", "--save-workload"),
        ("lock {0} -o file.json", "--output"),
        ("bench {0} --export xml=a", "--export"),
        ("bench {0} --export csv=a.csv --export jsonl=a.csv", "same file"),
        ("bench {0}/none*.onnx", "matches no file"),
        ("bench {0} --resume", "no interrupted session"),
        ("tune a/m.onnx b/m.onnx --force", "would replace"),
    ],
)
def test_what_is_wrong_for_all_is_said_once(line: str, told: str, folder: Path, tmp_path: Path) -> None:
    words = shlex.split(line.format(folder))
    kept = [] if words[0] == "lock" else ["--store", str(tmp_path / "s")]
    code, out, said = program([*words, *kept])
    assert (code, out) == (2, "") and told in said and "model 1 of" not in said


@pytest.mark.parametrize("line", ["partition", "look --budget-each 0", "lock"])
def test_quick_answers_are_resumed_too(
    line: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = tmp_path / "models"
    models.mkdir()
    for name in ("cos", "tanh"):
        (models / f"{name}.onnx").write_bytes((folder / f"{name}.onnx").read_bytes())
    words = [*line.split(), models, "--store", tmp_path / "s"]
    with monkeypatch.context() as patch:
        patch.setattr(run, "__defaults__", (None, stopped_after_one))
        code, first, _ = asked(*words)
    assert (code, [row.status for row in first.models]) == (130, ["ok", "missing"])
    assert "--resume" in first.resume
    code, second, said = asked(*words, "--resume")
    assert (code, [row.status for row in second.models]) == (0, ["ok", "ok"])
    assert second.models[0] == first.models[0] and "2 models, 1 left" in said
    code, out, _ = program(["report", second.session, "--store", str(tmp_path / "s")])
    assert code == 0 and "tanh.onnx" in out
    code, _, said = program([line.split(maxsplit=1)[0], str(models / "cos.onnx"), "--resume"])
    assert code == 2 and "several models" in said


def test_each_model_has_its_own_defaults(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cos", "tanh"):
        (tmp_path / f"{name}.onnx").write_bytes((folder / f"{name}.onnx").read_bytes())
    (tmp_path / "ortune.toml").write_text(
        '[bench]\nseed = 3\n[models."tanh.onnx"]\ndim = { N = 4 }\nbudget = "30s"\n'
        '[models."cos.onnx"]\ndim = { N = "many" }\n'
    )
    monkeypatch.chdir(tmp_path)
    code, result, _ = asked("bench", "cos.onnx", "tanh.onnx", "--store", "s", "--export", "jsonl=a.jsonl")
    cos, tanh = result.models
    assert (code, cos.status, tanh.status) == (2, "error", "ok")
    assert cos.error is not None and cos.error.where == "--dim N=many"
    assert tanh.configured is not None
    assert set(tanh.configured.options) == {"--seed 3", "--dim N=4", "--budget 30s"}
    document = json.loads(Path("a.jsonl").read_text().splitlines()[1])
    assert document["workload"]["cases"][0]["inputs"][0]["shape"] == [4, 8]
    assert document["configured"]["file"].endswith("ortune.toml")


def test_a_list_from_python_is_several_models(folder: Path, tmp_path: Path) -> None:
    models = [folder / "cos.onnx", folder / "tanh.onnx"]
    with measuring_on(Lab(1)):
        answer = ortune.bench(models, budget_each="20s", store=tmp_path / "s")
        one = ortune.bench(folder.glob("cos.*"), budget_each="20s", store=tmp_path / "s")
        alone = ortune.bench(models[0], budget="20s", store=tmp_path / "s")
    assert [row.path for row in answer.result.models] == [str(model) for model in models]
    assert len(one.result.models) == 1 and len(alone.result.rows) == 1
    assert "2 models" in answer.summary() and repr(answer) == "<ortune.bench of 2 models: ok>"
    assert "tanh.onnx" in answer._repr_html_()


def test_folders_and_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("m/b.onnx", "m/a.ort", "m/deep/c.onnx", "m/x.ortune/model.onnx", "m/.git/d.onnx", "m/e.txt"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    Path("odd[1].onnx").touch()
    assert found(["m"]) == ("m/a.ort", "m/b.onnx", "m/deep/c.onnx")
    assert found(["m/*.onnx", "m/b.onnx", "odd[1].onnx", "gone.onnx"]) == (
        "m/b.onnx",
        "odd[1].onnx",
        "gone.onnx",
    )
    assert found(["m/x.ortune", "g.onnx@HEAD"]) == ("m/x.ortune", "g.onnx@HEAD")
    with pytest.raises(UsageError, match="matches no file"):
        found(["m/x*.onnx"])
    Path("empty").mkdir()
    with pytest.raises(UsageError, match="holds no model"):
        found(["empty"])


def test_the_command_that_resumes_writes_the_same_files(folder: Path, tmp_path: Path) -> None:
    values = {
        "model": [str(folder)], "output": str(tmp_path / "out"), "bundle": False, "budget": "5m", "resume": "newest",
        "report": "all.html", "export": ["csv=a.csv"], "objective": "p95", "store": "s",
    }  # fmt: skip
    asked, _ = batch("tune", module_of("tune", "options").Options, values, {"budget"})
    assert asked is not None
    words = shlex.split(asked.command("--resume"))
    assert words[:3] == ["ortune", "tune", str(folder)] and words[-3:] == ["--budget", "300s", "--resume"]
    for pair in (("--output", str(tmp_path / "out")), ("--report", "all.html"), ("--export", "csv=a.csv")):
        assert pair in itertools.pairwise(words)
    assert "--no-bundle" in words and words.count("--resume") == 1
