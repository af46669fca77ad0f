"""``ortune tune --tolerance``: lower precision on each provider, in whole sessions on a simulated machine."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

import made_runtimes
import simulated_machine
from facts import facts
from ortune.records import NO_TIME
from ortune.verbs.tune.result import TuneResult
from precision_machine import places_reached, products, slow_host, with_bfloat16
from simulated_machine import Faults, Lab, measuring_on
from within import program

pytestmark = pytest.mark.xdist_group("quantize")


def tuned(folder: Path, lab: Lab, *options: str, budget: str = "150s", tolerance: str = "0.05") -> TuneResult:
    with measuring_on(lab):
        code, out, said = program([
            "tune", str(products(folder)), "--data", str(folder / "data"), "--tolerance", tolerance, "--budget", budget,
            "--store", str(folder / "store"), "--no-bundle", "--json", *options,
        ])  # fmt: skip
    assert code == 0, said
    return msgspec.convert(json.loads(out)["result"], TuneResult)


def shown(folder: Path, result: TuneResult) -> str:
    """The report with all details, its lines joined."""
    words = ["report", result.session, "--store", str(folder / "store"), "--format", "markdown", "-v"]
    return " ".join(program(words)[1].split())


def test_150_s_reach_bfloat16_and_two_quantized_files_on_each_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run takes 10 ms, and a file of a quantizer 4 s."""
    made_runtimes.require("openvino")
    with_bfloat16(monkeypatch)
    slow_host(monkeypatch)
    result = tuned(tmp_path, Lab(1, faster_rewrite="static-int8"), "--targets", "openvino")
    files = places_reached([row.plan for row in result.precision if row.tested and row.plan.rewrites])
    assert files["cpu"] >= 2 and files["openvino"] >= 2
    ran = [each.plan for each in result.candidates if each.n_blocks]
    types = {plan.settings.get("openvino_precision") for plan in ran if plan.providers and not plan.rewrites}
    assert {"bf16", "f32"} <= types


def test_models_without_time_are_named_with_the_budget_that_reaches_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_runtimes.require("openvino")
    slow_host(monkeypatch, tool_s=8.0)
    result = tuned(tmp_path, Lab(1), "--targets", "openvino", budget="100s")
    late = [row for row in result.precision if row.why == NO_TIME]
    assert late and not any(row.tested for row in late)
    assert result.budget.enough_s > 100
    facts(shown(tmp_path, result), "for lack of time (--budget", f"{len(late)} quantized model", NO_TIME)
    again = tuned(
        tmp_path / "again", Lab(1), "--targets", "openvino", budget=f"{result.budget.enough_s:.0f}s"
    )
    tested = {row.plan.id for row in again.precision if row.tested}
    assert {row.plan.id for row in late} <= tested


@pytest.mark.parametrize("faults", [Faults(wrong_on="openvino"), Faults(broken_on="openvino")])
def test_a_provider_that_fails_on_quantized_files_or_computes_them_wrong_wins_nothing(
    tmp_path: Path, faults: Faults
) -> None:
    """Each file has a row with the reason, and the race goes on."""
    made_runtimes.require("openvino")
    lab = Lab(1, faults=faults, faster_rewrite="static-int8", faster_target="openvino")
    result = tuned(tmp_path, lab, "--targets", "openvino")
    rows = [row for row in result.precision if row.plan.rewrites and row.plan.providers]
    assert rows and all(row.tested and row.why for row in rows)
    assert not (result.winner.rewrites and result.winner.providers)
    assert result.changes and result.against_default is not None
    assert result.against_default.verdict == "faster"
    facts(shown(tmp_path, result), "quantized model", rows[0].why)


def test_a_gain_that_is_too_small_for_its_error_changes_nothing(tmp_path: Path) -> None:
    """Nothing but the quantized models is faster, by 3 %, and their outputs are beyond rounding."""
    weather = simulated_machine.Weather(process=0.002)
    lab = Lab(1, faster_rewrite="static-int8", faster_log=0.03, differ=False, weather=weather)
    result = tuned(tmp_path, lab, "--targets", "cpu", budget="5m", tolerance="0.2")
    assert not any(spec.name == "static-int8" for spec in result.winner.rewrites)
    small = [each for each in result.candidates if "beyond rounding" in each.why]
    assert small and all(0.95 < (each.ratio or 1) < 0.98 for each in small)
    assert all(each.outputs is not None and each.outputs.relative_l2 > 1e-3 for each in small)
