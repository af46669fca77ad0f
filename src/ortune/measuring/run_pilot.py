"""Runs the pilot: the base alone, then two copies of it in turn, and the checks that precede a race."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ortune.catalogue.providers import NODE
from ortune.catalogue.providers import WEB_WASM as WASM
from ortune.errors import UsageError
from ortune.graph import outputs
from ortune.measuring import base_checks, output_check, timing
from ortune.measuring.budget import UNLIMITED, Budget
from ortune.measuring.executor import Arm, Timing
from ortune.measuring.measuring import Measuring
from ortune.measuring.pilot import PILOT_RUNS, first_trial_runs, least_runs_of, run_ns
from ortune.objectives import Objective
from ortune.records import Measured, messages
from ortune.search.blocks import BASE, IDENTICAL
from ortune.search.figures import FROM_START, KEPT, OF_PAGES, figure
from ortune.search.phases import LEAST_LOOK_S, LEAST_PAGES, LOOK_SHARE


def require_page(objective: Objective, trial: Measured, name: str) -> None:
    """Check that a trial has the measurements that an objective needs.

    Raises:
        UsageError: The objective needs a web page, Node.js or memory measurements, which the trial does not have.
    """
    if objective in KEPT and figure(trial, objective) is None:
        raise UsageError(
            f"memory after the runs is unknown for {name}: only processes on Linux report it, and memory after release "
            "only with the CPU's execution provider and without custom operators",
            where=f"--objective {objective}",
            do="use --objective memory, which is the peak",
        )
    if objective == "event-loop" and trial.done.event_loop is None:
        raise UsageError(
            f"applies to Node.js, and {name} does not run there",
            where=f"--objective {objective}",
            do=f"--target {NODE.target}, or another objective",
        )
    if objective in OF_PAGES and trial.done.page is None:
        raise UsageError(
            f"applies to web pages, and {name} is not one",
            where=f"--objective {objective}",
            do=f"--target {WASM.target}, or another objective",
        )


def run_pilot(
    measuring: Measuring,
    objective: Objective,
    budget: Budget = UNLIMITED,
    holds: Callable[[float], bool] = lambda _: True,
    rest: Callable[[], float] = lambda: 0.0,
) -> bool:
    """Time the base alone, then two copies of it in turn; compare the copies, and time three kinds of inputs.

    Args:
        measuring: The measurement, with settled inputs. Its ``pilot`` is completed, and the timing of later trials is
            set in its executor.
        objective: The objective of the measurement.
        budget: The budget of the command; steps that do not fit are shortened, or skipped with a note.
        holds: Called after the first trial with the duration of the shortest trial in nanoseconds; returns whether to
            continue the pilot.
        rest: Returns the number of trials needed after the pilot, for which optional steps are skipped.

    Returns:
        The result of ``holds``; False if the device is emulated, in which case nothing is timed.
    """
    pilot, executor, side = measuring.pilot, measuring.executor, measuring.side
    pilot.least_runs = least_runs_of(objective)
    base = measuring.arm(BASE)
    pilot.look_runs = first_trial_runs(executor.last, LOOK_SHARE * budget.left_ns)
    # One run was done already, but V8 compiles WebAssembly again, and until then a run takes far longer.
    in_wasm = side.plan.provider_names[0] == WASM.name
    warmup = 1 if pilot.look_runs == PILOT_RUNS or in_wasm else 0
    executor.timing = Timing(runs=pilot.look_runs, warmup_runs=warmup, warmup_ns=0, warmup_cap_ns=0)
    loaded = executor.last
    # Without time for a block, no later page is worth the seconds that compiled code takes to be stored.
    executor.caches = not isinstance(loaded, Measured) or budget.holds(LEAST_PAGES, loaded.elapsed_ns)
    base_checks.run_natively(measuring)
    first = pilot.first = measuring.require_measured(base, executor.trial(base, keep_outputs=True))
    executor.reference = executor.reference or Path(first.outputs_path)
    require_page(objective, first, side.label)
    if objective == "first-result" and (page := first.done.page) is not None:
        measuring.note(messages.Download(n_bytes=page.download_bytes, n_ns=page.download_ns))
    executor.timing = timing.timing_for(first, at_least_runs=pilot.least_runs)
    pilot.turns = executor.timing.turns
    # A start is measured by itself; everything else together with its contestant.
    executor.most_alive = (
        1 if objective in FROM_START else measuring.machine.most_alive(first.done.peak_bytes)
    )
    if executor.most_alive == 1 and objective not in FROM_START:
        measuring.note(messages.Remark(code="one-at-a-time"))
    # The time of the runs in this trial; the rest of its time is the start.
    turns_ns = (pilot.look_runs + warmup) * run_ns(first)
    elapsed_ns = first.elapsed_ns
    if in_wasm and measuring.machine.remote is None and isinstance(loaded, Measured):
        # Later pages start with the code that V8 compiled in this one, so they resemble the page that only loaded.
        elapsed_ns = min(elapsed_ns, loaded.elapsed_ns + int(turns_ns))
    pilot.time_by(first, turns_ns, elapsed_ns)
    least = pilot.least_turns
    if first.done.page is not None and first.done.page.software:
        # Times of emulated devices mean nothing, so one page suffices.
        measuring.use_turns(least)
        base_checks.compare_with_cpu(measuring, base, first)
        measuring.limits.expect(pilot.trial_ns)
        return False
    if not holds(pilot.least_trial_ns):
        measuring.use_turns(least)
        base_checks.alert_dependent_rows(measuring, 0.0)
        return False
    # Half of the share: in the next step two processes take turns.
    measuring.shorten(LOOK_SHARE * budget.left_ns / 2)
    rest_ns = rest() * pilot.least_trial_ns
    _run_again(measuring, base, budget.left_ns - rest_ns)
    measuring.use_turns(pilot.turns)
    base_checks.compare_with_cpu(measuring, base, first)
    base_checks.alert_dependent_rows(measuring, budget.left_ns - rest_ns)
    left_ns = budget.left_ns
    # At least some seconds, but never time that the search needs.
    most_ns = min(max(1e9 * LEAST_LOOK_S, LOOK_SHARE * left_ns), left_ns - rest_ns)
    base_checks.time_input_kinds(measuring, base, most_ns)
    measuring.limits.expect(pilot.trial_ns)
    return True


def _run_again(measuring: Measuring, base: Arm, most_ns: float) -> None:
    """Run two copies of the base in turn, set the pilot's times from them, and compare their outputs.

    The step is skipped if time is short, unless the model draws random numbers.
    """
    executor, pilot = measuring.executor, measuring.pilot
    executor.arms = {BASE: base, IDENTICAL: measuring.arm(IDENTICAL)}
    names = [BASE, IDENTICAL][: executor.most_alive]
    if most_ns < len(names) * pilot.trial_ns and not outputs.random_ops(measuring.side.model.ir):
        return
    outcomes = executor(names, lambda: False, keep=[BASE])
    assert outcomes is not None
    second, *_ = (measuring.require_measured(base, outcome) for outcome in outcomes)
    # The shorter of the two, since a stall lengthens a trial, and this time decides how many fit in the budget.
    elapsed_ns = min(outcome.elapsed_ns for outcome in outcomes)
    pilot.time_by(second, timing.turns_ns(executor.timing.turns, run_ns(second)), elapsed_ns)
    output_check.notice_randomness(measuring, second)
