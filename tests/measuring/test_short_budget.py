"""A budget that holds no search: what is known is told, undecided."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
from onnxruntime import datasets

import ortune
from facts import facts
from ortune import monotonic
from ortune.engines.profiling.headroom import short_profile
from ortune.engines.profiling.processes import FEWEST_RUNS, WARMUP_RUNS, runs_for, runs_within
from ortune.measuring import timing
from ortune.measuring.budget import Budget
from ortune.measuring.clock import Stopwatch
from ortune.measuring.input_options import InputOptions
from ortune.measuring.measuring import Measuring
from ortune.measuring.run_pilot import run_pilot
from ortune.measuring.sides import SideText, resolve
from ortune.measuring.watcher import Watcher
from ortune.records import Measured, Plan, messages
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine
from ortune.verbs.look import run as look


def test_a_tuning_without_time_tells_the_default_and_what_it_would_need(tmp_path: Path) -> None:
    lines: list[str] = []
    found = ortune.tune(
        datasets.get_example("sigmoid.onnx"),
        budget="0.05s",
        output=tmp_path,
        store=tmp_path / "store",
        python=sys.executable,
        watcher=Watcher(step=lambda step: lines.append(step.text)),
    )
    assert (found.status, found.verdict) == ("ok", "nothing-tested")
    result = found.result
    assert result.default_figures.latency_ns > 0
    # The first look, and nothing that no answer can come of.
    assert result.headroom is None and not any("profiling" in line for line in lines)
    assert result.budget.n_trials == 0 and "(--budget " in result.budget.promise
    assert result.budget.promise in result.headline
    assert found.summary().startswith("nothing tested: ")
    assert not result.bundle and not list(tmp_path.glob("*.ortune"))
    assert any(line.startswith("reading ") for line in lines)


@pytest.mark.parametrize("start_s", [1.0, 30.0])
def test_a_start_that_takes_most_of_the_budget_is_said(tmp_path: Path, start_s: float) -> None:
    sentences: list[str] = []
    look.run(
        look.Options(
            model=Path(datasets.get_example("sigmoid.onnx")),
            budget="40s",
            store=tmp_path,
        ),
        Watcher(say=sentences.append, clock=Stopwatch(monotonic.now_s() - start_s)),
    )
    said = [text for text in sentences if "starting ortune" in text]
    assert len(said) == (start_s > 20)
    for text in said:
        facts(text, "starting ortune", "budget 40 s")


def looked_at(folder: Path) -> Measuring:
    side = resolve(SideText(text=datasets.get_example("sigmoid.onnx")), common=Plan(), scratch=folder)
    baseline = Measuring(side, InputOptions(), folder, SessionLog(None, ""), lambda _: None, Machine())
    baseline.find_inputs(30.0)
    return baseline


def test_a_look_ends_where_no_plan_fits_and_tells_what_a_trial_takes(tmp_path: Path) -> None:
    baseline, asked = looked_at(tmp_path), []
    assert not run_pilot(
        baseline, "latency", Budget(total_s=500.0), lambda trial_ns: bool(asked.append(trial_ns))
    )
    assert asked == [baseline.pilot.trial_ns] and baseline.pilot.trial_ns > 0
    assert isinstance(baseline.pilot.first, Measured)
    assert not baseline.executor.arms  # nothing ran beside it
    assert baseline.executor.caches


def test_what_has_no_time_before_the_first_plan_is_left_out_and_named(tmp_path: Path) -> None:
    hurried = looked_at(tmp_path)
    assert run_pilot(hurried, "latency", Budget(total_s=0.01))
    assert hurried.pilot.look_runs == 1
    assert not hurried.executor.caches, "a page would take seconds to leave compiled code that none can use"
    assert hurried.pilot.trial_ns > 0
    assert messages.Remark(code="values-not-tested") in hurried.notes
    assert short_profile(hurried, 1e9, None, floors=False, most_ns=1e9) is None
    assert messages.Remark(code="not-profiled") in hurried.notes


def test_a_profile_has_as_many_runs_as_fit(tmp_path: Path) -> None:
    baseline = looked_at(tmp_path)
    assert baseline.executor.last is not None
    started = baseline.executor.last.elapsed_ns
    fewest = started + 2 * (WARMUP_RUNS + FEWEST_RUNS + 0.5) * 1e9
    assert runs_within(baseline, 1e9, fewest) == FEWEST_RUNS
    assert runs_within(baseline, 1e9, fewest - 2e9) == 0
    assert runs_within(baseline, 1e9, math.inf) == runs_for(1e9, baseline.side.model.info.n_nodes)


def test_progress_has_its_figures_first() -> None:
    lines: list[str] = []
    Watcher(step=lambda step: lines.append(step.text)).progress("racing 3 of 9 plans", 41.0, 120.0)
    Watcher(step=lambda step: lines.append(step.text)).progress("confirming", 130.0, 120.0)
    assert lines == ["34 %, 79 s left: racing 3 of 9 plans", "100 %, 0 s left: confirming"]


def test_what_a_budget_cuts_off_is_worth_cutting() -> None:
    """A page starts for seconds: runs of a fast model cost nothing there, and few after each rest are no warm ones."""
    whole = timing.turns_for(3e9, 1e6, timing.PAGE_AWAKE_NS / 1e6)
    assert whole.unmeasured == 8
    in_a_page = timing.shortened(whole, 3e9, 1e6, 1e9)
    assert (in_a_page.runs, in_a_page.unmeasured) == (whole.runs, whole.unmeasured)
    assert in_a_page.rounds < whole.rounds
    assert timing.shortened(whole, 0.05e9, 1e6, 0.04e9).runs < whole.runs
