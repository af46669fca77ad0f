"""A gain of threads next to other programs: one that is there without them is recommended, any other never is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import onnx
import pytest

from ortune.measuring.watcher import Watcher
from ortune.records import Comparison, Envelope, Plan
from ortune.verbs.compare import run as compare
from ortune.verbs.compare.gate_words import gate
from ortune.verbs.compare.result import CompareResult
from ortune.verbs.doctor import run as doctor
from ortune.verbs.tune import run as tune
from simulated_answers import model_name
from simulated_machine import Lab, Weather, net, tools_of

pytestmark = pytest.mark.xdist_group("sessions")

TRUE, ONLY_UNDER_LOAD = -0.25, 0.03
"""What one thread of four brings on a machine of its own, log units."""
LONG = range(2, 20)
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in LONG)]
INPUTS = 7


def lab_of(seed: int, threads_log: float, loops: int = 1, faster_rewrite: str = "", **weather: Any) -> Lab:
    weather_ = Weather(loops=loops, **weather)
    return Lab(seed, differ=False, threads_log=threads_log, faster_rewrite=faster_rewrite, weather=weather_)


def tuned(lab: Lab, folder: Path, **more: Any) -> Any:
    with tools_of(lab):
        options = tune.Options(
            model=net(folder),
            bundle=False,
            budget=90.0,
            seed=INPUTS,
            store=folder / "store",
            runtime=sys.executable,
            **more,
        )
        return tune.run(options, Watcher(machine=lab.machine))


def envelope(lab: Lab, folder: Path, **more: Any) -> Envelope[CompareResult]:
    usual = {"b_set": ("intra=1",)} if "a_set" not in more else {}
    with tools_of(lab):
        options = compare.Options(
            a=net(folder),
            seed=INPUTS,
            store=folder / "store",
            runtime=sys.executable,
            no_why=True,
            **{"b": net(folder) if "a_set" in more else None, "budget": 60.0, **usual, **more},
        )
        return compare.run(options, Watcher(machine=lab.machine))


def compared(lab: Lab, folder: Path, **more: Any) -> Comparison:
    comparison = envelope(lab, folder, **more).result.comparison
    assert comparison is not None
    return comparison


def fewer_threads(plan: Plan) -> bool:
    return int(plan.settings.get("intra_op_num_threads", 4)) < 4


@pytest.mark.parametrize("seed", SEEDS)
def test_a_true_gain_of_threads_is_recommended_beside_a_busy_loop(seed: int, tmp_path: Path) -> None:
    result = tuned(lab_of(seed, TRUE), tmp_path).result
    assert result.changes and fewer_threads(result.winner), result.headline
    assert result.against_default.verdict == "faster" and not result.against_default.others.explains


@pytest.mark.parametrize("seed", SEEDS)
def test_a_gain_that_exists_only_under_load_is_never_recommended(seed: int, tmp_path: Path) -> None:
    result = tuned(lab_of(seed, ONLY_UNDER_LOAD), tmp_path).result
    assert not fewer_threads(result.winner), result.headline
    if result.refused is not None and result.refused.comparison.verdict == "faster":
        assert result.refused.comparison.others.only_under_load


REWRITE = "affine-into-weights"


@pytest.mark.parametrize("seed", SEEDS)
def test_rewrites_are_shipped_without_the_threads_that_gain_under_load_alone(
    seed: int, tmp_path: Path
) -> None:
    lab = lab_of(seed, ONLY_UNDER_LOAD, faster_rewrite=REWRITE)
    result = tuned(lab, tmp_path).result
    assert result.changes and not fewer_threads(result.winner), result.headline
    assert REWRITE in {spec.name for spec in result.winner.rewrites}
    assert result.against_default is not None and result.against_default.verdict == "faster"
    others = result.against_default.others
    assert others is None or not others.only_under_load


@pytest.mark.parametrize("seed", SEEDS)
def test_compare_says_which_of_the_two_it_is(seed: int, tmp_path: Path) -> None:
    there = compared(lab_of(seed, TRUE), tmp_path)
    assert there.verdict == "faster" and (there.others is None or not there.others.explains)
    only = compared(lab_of(seed, ONLY_UNDER_LOAD), tmp_path)
    # A p10 sees the runs in which nobody waited, and so no gain at all.
    assert only.verdict != "faster" or (only.others is not None and only.others.only_under_load)


def test_doctor_promises_no_finer_effect_from_more_time_on_a_busy_machine(tmp_path: Path) -> None:
    lab = lab_of(0, 0.0, run=0.2)
    with tools_of(lab):
        options = doctor.Options(store=tmp_path / "store", runtime=sys.executable)
        noise = doctor.run(options, Watcher(machine=lab.machine)).result.noise
    assert noise is not None and noise.busy and noise.used_cpus == pytest.approx(1.0, abs=0.1)
    effects = {row.smallest_effect_ratio for row in noise.table[2:]}
    assert len(effects) == 1 and None not in effects


@pytest.mark.parametrize("side", ["a_set", "b_set"])
@pytest.mark.parametrize(("counts_as", "code"), [("pass", 0), ("fail", 1)])
def test_a_gate_is_undecided_where_waiting_may_explain_the_difference(
    side: str, counts_as: str, code: int, tmp_path: Path
) -> None:
    """A regression, and a gain that hides one: each may come from the other programs alone."""
    lab = lab_of(1, ONLY_UNDER_LOAD)
    answer = envelope(lab, tmp_path, threshold="5%", undecided=counts_as, **{side: ("intra=1",)})
    result = answer.result
    assert result.comparison is not None and result.comparison.others is not None
    assert result.comparison.verdict == ("slower" if side == "a_set" else "inconclusive")
    assert result.gate is not None
    assert (result.gate.answer, result.gate.reason) == ("undecided", "other-programs")
    (line,) = [line for line in gate(result) if line.startswith("gate:")]
    assert "undecided" in line and f"counted as {counts_as}" in line and "--wait-quiet" in line
    assert "FAIL" not in line and compare.exit_code(answer) == code


@pytest.mark.parametrize(("slower", "answers"), [(True, {"fail"}), (False, {"pass", "undecided"})])
def test_a_gate_fails_for_a_slower_model_next_to_other_programs(
    slower: bool, answers: set[str], tmp_path: Path
) -> None:
    """Both sides wait in most rounds, and only the CPU time of the slower model is longer for its own reasons."""
    new = tmp_path / "new.onnx"
    model = onnx.load(net(tmp_path))
    model.doc_string = "another file"
    onnx.save(model, new)
    lab = lab_of(1, 0.0)
    lab.slower_model = model_name(str(new)) if slower else ""
    answer = envelope(lab, tmp_path, b=new, a_set=(), threshold="1%", budget=120.0)
    result = answer.result
    assert result.gate is not None and result.gate.answer in answers
    assert result.comparison is not None and result.comparison.others is not None
    assert (result.comparison.others.cpu_time is not None) == slower
    assert compare.exit_code(answer) == slower
