"""``ortune quantize``: layers that cost too much stay in float, each with its reason, and the rest is proven."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import simulated_machine
import simulated_trial
from facts import facts
from graphs import drawn
from onnx_text import assemble, model_of, saved
from ortune import records, rules
from ortune.measuring import limits
from ortune.measuring.proposed_work import SIZES_OF_DATA
from ortune.search.precision import AS_FAST
from ortune.verbs.quantize import sensitivity
from ortune.verbs.quantize.result import QuantizeResult
from simulated_machine import Faults, Lab, Weather, measuring_on
from within import program

pytestmark = pytest.mark.xdist_group("quantize")  # what one made of the model and its data, others take

SENSITIVE = "spread"
"""The layer whose activations have an outlier: in 8 bits all of its other values are nearly nothing."""


def model(
    path: Path, *, seed: int = 3, renamed: bool = False, output: str = "y", rows: int | str = 8
) -> Path:
    """Four blocks of one shape, and a layer whose input is small numbers beside one that is a thousand times larger."""
    rng = np.random.default_rng(seed)
    n = 64

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return drawn(rng, name, *(shape or (n, n)), times=0.12)

    weights, nodes = [], []
    value = "x"
    for i in range(4):
        weights.append(weight(f"w{i}"))
        nodes.append(helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"], name=f"block{i}"))
        nodes.append(helper.make_node("Relu", [f"m{i}"], [f"r{i}"]))
        value = f"r{i}"
    large = np.ones(n, np.float32)
    large[0] = 3000.0
    weights += [numpy_helper.from_array(large, "large"), weight("w4"), weight("w5", 32, n)]
    weights[-2] = numpy_helper.from_array(
        (rng.standard_normal((n, 32)) * 0.12 / large[:, None]).astype(np.float32), "w4"
    )
    nodes += [
        helper.make_node("Mul", [value, "large"], ["far"]),
        # No scale can be moved through it, so smooth-quant does not help.
        helper.make_node("Abs", ["far"], ["spread_in"]),
        helper.make_node("MatMul", ["spread_in", "w4"], ["m4"], name=SENSITIVE),
        helper.make_node("MatMul", ["m4", "w5"], [output], name="head"),
    ]
    if renamed:
        for node in nodes:
            node.name = f"other-{node.name}" if node.name else ""
    onnx.save(
        assemble(
            nodes,
            f"float[{rows},{n}] x",
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, [rows, n])],
            weights,
            name="layers",
        ),
        path,
    )
    return path


def data(folder: Path, count: int = 8) -> Path:
    folder.mkdir()
    for seed in range(count):
        x = np.random.default_rng(seed).standard_normal((8, 64)).astype(np.float32)
        np.savez(folder / f"{seed}.npz", x=x)
    return folder


def quantize(folder: Path, *words: str, faster: str = "", lab: Lab | None = None) -> tuple[int, str, str]:
    with measuring_on(lab or Lab(1, faster_rewrite=faster)):
        return program(
            [
                "quantize",
                str(folder / "m.onnx"),
                "--store",
                str(folder / "store"),
                "--output",
                str(folder),
                *words,
            ]
        )


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("quantize")
    model(folder / "m.onnx")
    code, out, said = quantize(
        folder, "--data", str(data(folder / "data")), "--tolerance", "0.03", "--budget", "5m", "--json"
    )
    assert code == 0, said
    return folder, json.loads(out)


@pytest.mark.parametrize(
    ("crowd", "budget_s", "words"),
    [
        (100.0, 60, ("nothing tested", "created and tested in time", "--budget ")),
        (20.0, 100, ("nothing tested", "too small to test", "quantization methods", "--budget ")),
        (1.0, 60, ("nothing tested", "too small to test", "quantization methods", "--budget ")),
    ],
)
def test_the_budget_is_kept_and_what_it_did_not_hold_is_said(
    tmp_path: Path, crowd: float, budget_s: int, words: tuple[str, ...]
) -> None:
    """Starts and runs take longer and longer: no step begins that the time left does not hold."""
    model(tmp_path / "m.onnx")
    lab = Lab(1, weather=Weather(crowd=crowd))
    begins_s = lab.now_s
    code, out, said = quantize(
        tmp_path, "--data", str(data(tmp_path / "data", 236)), "--tolerance", "0.03", "--budget", f"{budget_s}s",
        "--no-bundle", "--json", lab=lab,
    )  # fmt: skip
    assert code == 0, said
    assert lab.now_s - begins_s <= 1.1 * budget_s
    result = result_of(json.loads(out))
    facts(result.headline, *words)
    assert result.enough_s > budget_s


def test_until_a_method_runs_the_whole_budget_is_for_methods(tmp_path: Path) -> None:
    model(tmp_path / "m.onnx")
    lab = Lab(1, faults=Faults(breaks=1.0), weather=Weather(crowd=12.0))
    began_s = lab.now_s
    code, out, said = quantize(tmp_path, "--budget", "30s", "--no-bundle", "--json", lab=lab)
    assert code == 0, said
    result = result_of(json.loads(out))
    failed = [row for row in result.methods if row.tested]
    assert failed and all(row.why for row in failed)
    assert any(not row.tested for row in result.methods)
    # Steps towards float, and a comparison, would have begun at 0.6 of it.
    assert lab.now_s - began_s > 0.75 * 30
    facts(result.headline, f"{len(failed)} of {len(result.methods)}", "failed", "--budget")


def result_of(document: dict[str, Any]) -> QuantizeResult:
    return msgspec.convert(document["result"], QuantizeResult)


def test_the_layer_that_causes_the_error_is_told(answer: tuple[Path, dict[str, Any]]) -> None:
    _, document = answer
    assert document["schema"] == "ortune/quantize/1"
    layers = {row.name: row for row in result_of(document).layers}
    worst = max(layers.values(), key=lambda row: row.error or 0.0)
    # What it reads is quantized with the layer before it, or with it: either is to blame.
    assert {SENSITIVE, "block3"} & set(worst.members)
    assert worst.error_ratio is not None and worst.error_ratio > 0.4


def test_equal_blocks_are_one_question(answer: tuple[Path, dict[str, Any]]) -> None:
    _, document = answer
    members = [row.members for row in result_of(document).layers]
    assert ("block1", "block2") in members


def test_every_raced_model_has_its_error_and_its_comparison(answer: tuple[Path, dict[str, Any]]) -> None:
    _, document = answer
    result = result_of(document)
    raced = [row for row in result.front if row.comparison is not None]
    assert raced
    for row in raced:
        assert row.outputs is not None and row.error > 0
        assert row.comparison is not None
        assert row.comparison.phase == "confirm" or not (row.pareto or row.chosen)
    assert sum(row.chosen for row in result.front) == 1
    assert result.front[0].error == 0.0
    assert [row.error for row in result.front] == sorted(row.error for row in result.front)


def test_a_second_means_is_decided_layer_by_layer_where_time_is_left(
    answer: tuple[Path, dict[str, Any]],
) -> None:
    _, document = answer
    partly = {
        row.plan.rewrites[-1].name for row in result_of(document).front if 0 < row.n_float < row.n_layers
    }
    assert partly == {"static-int8", "dynamic-int8"}


def test_what_is_chosen_keeps_the_tolerance(answer: tuple[Path, dict[str, Any]]) -> None:
    _, document = answer
    result = result_of(document)
    (chosen,) = (row for row in result.front if row.chosen)
    assert chosen.ok and chosen.error <= 0.06
    beyond = [row for row in result.front if not row.ok]
    assert beyond, "the whole model in fewer bits must be beyond the tolerance here"


def test_a_session_that_was_killed_goes_on_to_the_same_answer(
    answer: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """Killed after its last block: models are made anew, nothing is measured twice, and the answer is the same."""
    folder, document = answer
    shutil.copytree(folder / "store", tmp_path / "store")
    with sqlite3.connect(tmp_path / "store" / "ortune.sqlite") as db:
        session = document["result"]["session"]
        count = "SELECT COUNT(*) FROM event WHERE session = ? AND kind = 'outcome'"
        (last,) = db.execute(
            "SELECT MAX(seq) FROM event WHERE session = ? AND kind = 'block'", (session,)
        ).fetchone()
        db.execute("DROP TRIGGER event_no_delete")
        db.execute("DELETE FROM event WHERE session = ? AND seq > ?", (session, last))
        (before,) = db.execute(count, (session,)).fetchone()
    db.close()
    words = ["--data", str(folder / "data"), "--tolerance", "0.03", "--budget", "5m", "--json", "--no-bundle"]
    code, out, said = quantize(folder, *words, "--resume", session, "--store", str(tmp_path / "store"))
    assert code == 0, said
    again = json.loads(out)
    assert again["verdict"] == document["verdict"]
    for name in ("winner", "against_default", "front", "layers", "controls", "methods"):
        assert again["result"][name] == document["result"][name], name
    with sqlite3.connect(tmp_path / "store" / "ortune.sqlite") as db:
        assert db.execute(count, (session,)).fetchone() == (before,)
    db.close()


def test_a_second_model_of_the_family_takes_a_third_of_the_questions(
    answer: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """Other weights and other names in the same structure: the first model tells which layers are worth a question."""
    folder, first = answer
    shutil.copytree(folder / "store", tmp_path / "store")
    model(tmp_path / "m.onnx", seed=4, renamed=True)
    words = ["--data", str(folder / "data"), "--tolerance", "0.03", "--budget", "5m", "--json", "--no-bundle"]
    code, out, said = quantize(tmp_path, *words)
    assert code == 0, said
    mine, theirs = result_of(json.loads(out)), result_of(first)
    asked, before = ([row for row in result.layers if row.error is not None] for result in (mine, theirs))
    assert len(before) == 5 and len(asked) == 2
    guessed = [row for row in mine.layers if row.error is None and row.expected_error is not None]
    assert len(guessed) == 3
    assert all(row.error_ratio is None or row.error_ratio < 0.4 for row in guessed)
    # What is decided was measured: the winner's and every other model's outputs.
    (chosen,) = (row for row in mine.front if row.chosen)
    assert chosen.ok and all(row.outputs is not None for row in mine.front if row.plan.rewrites)
    # The dearest layer is known by its structure, whatever it is called.
    worst = max(asked, key=lambda row: row.error or 0.0)
    assert {f"other-{SENSITIVE}", "other-block3"} & set(worst.members)


def test_a_second_model_of_the_family_is_decided_in_a_third_of_the_time(tmp_path: Path) -> None:
    """The method that was best in the first is tested alone, unless no model of it is right."""
    words = (
        "--data",
        str(data(tmp_path / "data")),
        "--tolerance",
        "0.03",
        "--budget",
        "5m",
        "--json",
        "--no-bundle",
    )
    decided_s, methods, results = list[float](), list[int](), list[QuantizeResult]()
    for seed, renamed in ((3, False), (5, True), (4, True)):
        model(tmp_path / "m.onnx", seed=seed, renamed=renamed)
        lab = Lab(1, faster_rewrite="static-int8")
        began_s = lab.now_s
        code, out, said = quantize(tmp_path, *words, lab=lab)
        assert code == 0, said
        results.append(result_of(json.loads(out)))
        # Only the race and the confirmation have controls beside the float model.
        decided_s.append(next(at_s for at_s, _, plans in lab.groups if len(plans) > 2) - began_s)
        methods.append(sum(row.tested for row in results[-1].methods))
    first, second, third = results
    assert first.against_default is not None and first.against_default.verdict == "faster"
    assert decided_s[1] < decided_s[0] / 3, decided_s
    facts(" ".join(second.notes), "not tested", "in an earlier model")
    # What is claimed rests on this model's own measurements, all the same.
    assert second.against_default is not None and second.against_default.verdict == "faster"
    (chosen,) = (row for row in second.front if row.chosen)
    assert chosen.ok and chosen.outputs is not None
    # In the third model that method leaves no layers that keep the tolerance, so all are tested.
    assert methods[1] < methods[0] == methods[2]
    assert not any("in an earlier model" in note for note in third.notes)


def test_a_second_model_is_asked_what_the_first_was_though_its_layers_would_be_joined_otherwise(
    answer: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that takes longer leaves time for other questions: what the first model told holds for its own."""
    folder, _ = answer
    words = ["--data", str(folder / "data"), "--tolerance", "0.03", "--budget", "5m", "--json", "--no-bundle"]
    asked = []
    for most, renamed in ((4, False), (3, True)):
        monkeypatch.setattr(sensitivity, "MOST_QUESTIONS", most)
        model(tmp_path / "m.onnx", seed=4, renamed=renamed)
        code, out, said = quantize(tmp_path, *words)
        assert code == 0, said
        layers = result_of(json.loads(out)).layers
        asked.append((len(layers), sum(row.error is not None for row in layers)))
    assert asked == [(4, 4), (4, 2)]


def test_what_the_error_rests_on_is_told(answer: tuple[Path, dict[str, Any]]) -> None:
    folder, document = answer
    result = result_of(document)
    assert result.calibration == records.Calibration(
        inputs=6, checked=2, source=str(folder / "data"), labelled=0
    )
    assert (result.inputs_needed, result.checked_needed) == (236, 59)
    facts(result.headline, "NOT FINAL", "2 held-out inputs, 59 are needed")


def test_inputs_of_a_final_answer_are_held_out_in_full(tmp_path: Path) -> None:
    model(tmp_path / "m.onnx")
    words = ["--data", str(data(tmp_path / "data", 236)), "--budget", "10s", "--no-bundle", "--json"]
    code, out, said = quantize(tmp_path, *words)
    assert code == 0, said
    result = result_of(json.loads(out))
    assert (result.calibration.inputs, result.calibration.checked, result.inputs_needed) == (177, 59, 0)
    assert result.checked_needed == 0 and "NOT FINAL" not in result.headline


SLOW_NS = 60e6
"""Of a run: 59 of them take longer than models are compared for before the answer is known."""


def slow(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    budget: str,
    *more: str,
    outlier: int = -1,
    run_ns: float = SLOW_NS,
) -> QuantizeResult:
    """The answer where 59 runs take long, and int8 is a third faster; one input may be far larger than the others."""
    monkeypatch.setattr(simulated_trial, "RUN_NS", run_ns)
    model(folder / "m.onnx")
    place = data(folder / "data", 236)
    if outlier >= 0:
        np.savez(place / f"{outlier}.npz", x=np.full((8, 64), 40.0, np.float32))
    words = ["--data", str(place), "--tolerance", "0.2", "--budget", budget, "--json", *more]
    code, out, said = quantize(folder, *words, faster="static-int8")
    assert code == 0, said
    return result_of(json.loads(out))


@pytest.mark.parametrize("budget", ["3m", "10m"])
def test_slow_runs_are_compared_on_all_inputs_of_a_final_answer_once_it_is_known(
    budget: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 3 minutes the run of 59 inputs takes longer than a timed trial may: it is no hang."""
    result = slow(tmp_path, monkeypatch, budget)
    calibration = result.calibration
    assert (calibration.inputs, calibration.checked, calibration.screened) == (177, 59, 16)
    assert (result.inputs_needed, result.checked_needed, result.enough_s) == (0, 0, 0)
    assert result.headline.startswith("faster: ") and "NOT FINAL" not in result.headline
    (winner,) = (row for row in result.front if row.chosen)
    assert winner.ok and winner.plan.rewrites[-1].name == "static-int8"
    about = json.loads((Path(result.bundle) / "ortune.json").read_text())
    assert msgspec.convert(about["calibration"], records.Calibration) == calibration


def test_a_float_model_that_does_not_end_on_all_held_out_inputs_costs_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its processes may take no longer than a timed trial: the answer is that of the inputs that were compared."""
    monkeypatch.setattr(limits.TrialTimeouts, "extended_to", lambda *_: contextlib.nullcontext())
    result = slow(tmp_path, monkeypatch, "3m", "--no-bundle")
    assert result.headline.startswith("faster: ")
    facts(result.headline, "NOT FINAL", "16 held-out inputs, 59 are needed")
    assert result.calibration.checked == 16 and result.enough_s > 180


def test_a_model_that_held_out_inputs_show_to_be_wrong_is_not_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One input of 59 is beyond all ranges that were calibrated, and not among those that models are screened on."""
    order = sorted(f"{i}.npz" for i in range(236))
    held_out = [int(name.partition(".")[0]) for name in order[::4]]
    result = slow(tmp_path, monkeypatch, "10m", "--no-bundle", outlier=held_out[1])
    wrong = [row for row in result.front if not row.ok and row.plan.rewrites and not row.n_float]
    assert any(row.plan.rewrites[-1].name == "static-int8" for row in wrong)
    assert result.winner.rewrites[-1:] == () or result.winner.rewrites[-1].params.get("leave")
    for row in result.front:
        assert not (row.chosen and not row.ok)


def test_an_answer_that_saw_too_few_inputs_is_not_final_and_tells_the_budget_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = slow(tmp_path, monkeypatch, "15m", "--no-bundle", run_ns=10 * SLOW_NS)
    assert result.headline.startswith("faster: ")
    assert (result.calibration.checked, result.checked_needed, result.inputs_needed) == (16, 59, 0)
    facts(result.headline, "NOT FINAL", "16 held-out inputs, 59 are needed")
    assert result.enough_s > 900


@pytest.mark.parametrize(
    ("words", "rows", "note"),
    [((), 8, True), (("--shape", "x:2x64"), 2, False), (("--dim", "batch=4"), 4, False)],
)
def test_times_are_those_of_the_sizes_of_the_data(
    words: tuple[str, ...], rows: int, note: bool, tmp_path: Path
) -> None:
    """The model leaves its batch open, and all inputs have eight rows: one row is not what will run."""
    model(tmp_path / "m.onnx", rows="batch")
    folder = str(data(tmp_path / "data"))
    code, out, said = quantize(tmp_path, "--data", folder, "--budget", "10s", "--no-bundle", "--json", *words)
    assert code == 0, said
    workload = json.loads(out)["workload"]
    assert [case["inputs"][0]["shape"] for case in workload["cases"]] == [[rows, 64]]
    assert (SIZES_OF_DATA in workload["notes"]) == note


@pytest.mark.parametrize("asked", [(), ("--tolerance", "0.5")])
def test_a_metric_is_chosen_by_what_outputs_are_where_none_was_named(
    asked: tuple[str, ...], tmp_path: Path
) -> None:
    model(tmp_path / "m.onnx", output="logits")
    words = ["--data", str(data(tmp_path / "data")), "--budget", "10s", "--no-bundle", "--json", *asked]
    code, out, said = quantize(tmp_path, *words)
    assert code == 0, said
    result = result_of(json.loads(out))
    judged = [row.outputs for row in result.methods if row.outputs is not None]
    assert judged
    if asked:
        assert (result.metric, result.judged_by, result.tolerance) == ("", "", "0.5")
        assert all(outputs.metric is None for outputs in judged)
        return
    assert (result.metric, result.judged_by, result.tolerance) == ("accuracy", "accuracy", "metric>=99%")
    assert "logits" in result.metric_reason
    for outputs in judged:
        assert outputs.metric is not None and outputs.ok == (outputs.metric >= 0.99)


def test_invented_inputs_are_not_final(tmp_path: Path) -> None:
    model(tmp_path / "m.onnx")
    code, out, _ = quantize(tmp_path, "--budget", "10s", "--no-bundle")
    assert code == 0
    assert "NOT FINAL (synthetic inputs)" in " ".join(out.split())
    assert "at least 236 real ones" in " ".join(out.split())


def test_a_model_without_layers_is_refused_with_the_reason(tmp_path: Path) -> None:
    saved(tmp_path / "m.onnx", model_of("plain (float[8] x) => (float[8] y) { y = Relu (x) }"))
    code, _, said = quantize(tmp_path, "--budget", "60s")
    assert code == 2
    assert "has constant float32 weights" in said


def test_the_winner_is_in_a_bundle_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where models in fewer bits are faster, the bundle holds the best of them, and how it was calibrated.

    The processor has VNNI: what the winner gives on one without is told.
    """
    features = (*simulated_machine.HOST.features, "avx512_vnni")
    with_vnni = msgspec.structs.replace(simulated_machine.HOST, features=features)
    monkeypatch.setattr(simulated_machine, "HOST", with_vnni)
    model(tmp_path / "m.onnx")
    folder = str(data(tmp_path / "data"))
    words = ["--data", folder, "--tolerance", "0.2", "--budget", "3m", "--json"]
    code, out, said = quantize(tmp_path, *words, faster="static-int8")
    assert code == 0, said
    document = json.loads(out)
    assert document["verdict"] == "faster"
    result = result_of(document)
    assert result.headline.startswith("faster: ") and "layers" in result.headline
    assert result.saturation == "elsewhere"
    assert result.saturated is not None and result.saturated.outputs, result.saturated
    assert result.portable is not None and result.portable.plan.rewrites[-1].params["range"] == "7"
    assert result.portable.ratio is None
    # Which layers the winner keeps in float, and so its error, depends on this processor's own saturation.
    assert result.portable.outputs is not None and result.portable.outputs.worst_slice_l2 < 0.2
    # What is on the front is confirmed: as many fresh blocks of each, and one error shared among them.
    on_front = [row.comparison for row in result.front if row.pareto and row.comparison is not None]
    assert on_front and {each.phase for each in on_front} == {"confirm"}
    assert min(each.n_blocks for each in on_front) >= 9
    assert result.against_default is not None and result.against_default.phase == "confirm"
    # The lab's int8 models are equally fast: of those that are right, none with a smaller error was as fast.
    (chosen,) = (row for row in result.front if row.chosen)
    nearer = [
        r.comparison for r in result.front if r.ok and r.error < chosen.error and r.comparison in on_front
    ]
    assert chosen.comparison is not None
    fastest = min(row.comparison.ratio for row in result.front if row.ok and row.comparison in on_front)
    assert chosen.comparison.ratio <= AS_FAST * fastest
    assert all(each.ratio > AS_FAST * fastest for each in nearer if each is not None)
    bundle = Path(result.bundle)
    info = json.loads((bundle / "ortune.json").read_text())
    assert info["calibration"]["source"] == folder
    assert info["plan"]["rewrites"][-1]["name"] == result.winner.rewrites[-1].name == "static-int8"
    assert result.headline.split(" (")[0] in (bundle / "report.html").read_text()
    assert "8-bit results differ" in (bundle / "load.py").read_text()
    assert info["plain_model"], "the page was written again with the place of the model"
    assert info["model"] in (bundle / "report.html").read_text()
    for line in (bundle / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((bundle / name).read_bytes()).hexdigest() == digest, name
    done = subprocess.run(
        [sys.executable, str(bundle / "load.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    # It was made on another processor, whose instruction sets it holds.
    assert info["host"]["features"]
    assert "8-bit results differ" in done.stderr


def test_a_confirmed_gain_that_is_too_small_for_its_error_is_shown_and_float_is_kept(tmp_path: Path) -> None:
    """Quantized models take 3 % less time, which fresh blocks confirm; the outputs are beyond rounding."""
    model(tmp_path / "m.onnx")
    lab = Lab(1, faster_rewrite="static-int8", faster_log=0.03, differ=False, weather=Weather(process=0.002))
    code, out, said = quantize(
        tmp_path, "--data", str(data(tmp_path / "data")), "--tolerance", "0.2", "--budget", "3m", "--json", lab=lab
    )  # fmt: skip
    assert code == 0, said
    document = json.loads(out)
    result = result_of(document)
    assert document["verdict"] == "inconclusive" and not result.changes and not result.bundle
    small = [row for row in result.front if row.small_gain]
    assert small and not any(row.chosen for row in small) and result.front[0].chosen
    for row in small:
        assert row.ok and row.comparison is not None and row.comparison.verdict == "faster"
        assert row.comparison.ratio_high is not None and 0.95 < row.comparison.ratio_high < 1
    facts(
        result.headline,
        "1.03x in p",
        "with an error of",
        "1.05x or more",
        "keep the float model",
        "NOT FINAL",
    )


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("QNT002", "Conv"),
        ("QNT011", "bias"),
        ("QNT012", "bias"),
        ("QNT013", "DequantizeLinear"),
        ("QNT014", "scale"),
        ("QNT015", "large steps"),
    ],
)
def test_a_quantized_model_that_is_silently_wrong_is_refused_with_the_reason(
    code: str, what: str, tmp_path: Path
) -> None:
    """Six kinds, each the rule's own example: the answer is not that there is nothing to do."""
    example = rules.find_rule(code).bad
    assert example is not None
    onnx.save(example(), tmp_path / "m.onnx")
    status, _, said = quantize(tmp_path, "--budget", "60s")
    text = " ".join(said.split())
    assert status == 2
    assert "quantized operators" in text
    assert code in text and what in text


@pytest.mark.long
def test_a_winner_whose_rows_depend_on_each_other_says_so_first(tmp_path: Path) -> None:
    """One range of a whole batch: the same row has another answer alone."""
    model(tmp_path / "m.onnx", rows="batch")
    words = ("--data", str(data(tmp_path / "data")), "--tolerance", "0.5", "--budget", "5m", "--json")
    code, out, said = quantize(tmp_path, *words, "--no-bundle", faster="dynamic-int8")
    assert code == 0, said
    document = json.loads(out)
    assert result_of(document).winner.rewrites[-1].name == "dynamic-int8"
    (alert,) = document["alerts"]
    assert alert["code"] == "MSR015"
    facts(alert["what"], "dynamic-int8", "batch", "relative L2", "DynamicQuantizeLinear")


def test_a_model_with_all_layers_in_float_is_no_candidate(tmp_path: Path) -> None:
    model(tmp_path / "m.onnx")
    words = ("--data", str(data(tmp_path / "data", 4)), "--tolerance", "1e-7", "--budget", "5m", "--json")
    code, out, said = quantize(tmp_path, *words)
    assert code == 0, said
    result = result_of(json.loads(out))
    assert result.layers and result.all_float and not result.changes
    quantized = [row for row in result.front if row.plan.rewrites]
    assert quantized and all(row.n_float < row.n_layers for row in quantized)
    facts(result.headline, "no layer can be quantized", "tolerance 1e-7", "nearest: ")
    assert not result.no_time or result.all_methods_s
