"""A budget that holds no search: what is known is told, undecided."""

from __future__ import annotations

import sys
from pathlib import Path

from onnxruntime import datasets

import ortune
from ortune.trials import pilot
from ortune.trials.watcher import Watcher


def test_a_tuning_without_time_tells_the_default_and_what_it_would_need(tmp_path: Path) -> None:
    lines: list[str] = []
    found = ortune.tune(
        datasets.get_example("sigmoid.onnx"),
        budget="1s",
        output=tmp_path,
        store=tmp_path / "store",
        python=sys.executable,
        watcher=Watcher(line=lines.append),
    )
    assert (found.status, found.verdict) == ("ok", "inconclusive")
    result = found.result
    assert result.default_figures.latency_ns > 0
    assert result.headroom is not None
    assert result.budget.n_trials == 0 and "(--budget " in result.budget.promise
    assert result.budget.promise in result.headline
    assert "no other configuration was tried" in found.summary()
    assert not result.bundle and not list(tmp_path.glob("*.ortune"))
    assert any(line.startswith("reading ") for line in lines)


def test_progress_has_its_figures_first() -> None:
    lines: list[str] = []
    Watcher(line=lines.append).progress("racing 3 of 9 plans", 41.0, 120.0)
    Watcher(line=lines.append).progress("confirming", 130.0, 120.0)
    assert lines == ["34 %, 79 s left: racing 3 of 9 plans", "100 %, 0 s left: confirming"]


def test_what_a_budget_cuts_off_is_worth_cutting() -> None:
    """A page starts for seconds: runs of a fast model cost nothing there, and one after each rest is no warm one."""
    whole = pilot.turns_for(3e9, 1e6)
    in_a_page = pilot.shortened(whole, 3e9, 1e6, 1e9)
    assert (in_a_page.runs, in_a_page.unmeasured) == (whole.runs, whole.unmeasured)
    assert in_a_page.rounds < whole.rounds
    assert pilot.shortened(whole, 0.05e9, 1e6, 0.04e9).runs < whole.runs
