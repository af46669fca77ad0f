"""Tuning with a memory limit: if the default exceeds the limit, finds a configuration within it as the base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from ortune import rewrites
from ortune.catalogue import facts
from ortune.catalogue.named import ROWS_PER_RUN
from ortune.catalogue.providers import CPU
from ortune.durations import as_option
from ortune.engines.quantizing.quantizing import unsaturated
from ortune.engines.racing.tuning import Tuning
from ortune.errors import MeasurementError
from ortune.graph.rows import batch_axes
from ortune.measuring import output_check
from ortune.measuring.measuring import Measuring
from ortune.measuring.pace import Pace
from ortune.records import Measured, Outcome, Plan
from ortune.search.figures import figure
from ortune.search.phases import WITHIN_MEMORY_SHARE
from ortune.search.plan_edits import with_change
from ortune.search.proposals.plans import with_cleanup
from ortune.search.proposals.settings import FIRST
from ortune.show.numbers import memory
from ortune.verbs.tune import steps_words
from ortune.verbs.tune.across import scope_of
from ortune.verbs.tune.result import MemoryTry, WithinMemory

ROWS = (8, 1)
"""Numbers of batch rows per run that are tried."""
RUNS = 2
"""Runs of each input size after its first run, since memory that grows when sizes change shows only then."""
REWRITING_SHARE = 0.1
"""Maximum fraction of the remaining time for creating one model."""
LESS = 0.99
"""Ratio of peak memory below which a change is combined with other changes."""


def step_down(run: Tuning, limit_bytes: int | None) -> WithinMemory | None:
    """If the default exceeds the memory limit, make the fastest configuration within it the base; None without a limit.

    Raises:
        MeasurementError: No tried configuration is within the limit, or the system does not report memory.
    """
    if limit_bytes is None:
        return None
    run.search.race.limit_bytes = limit_bytes
    run.watch.line(steps_words.MEASURING_MEMORY)
    found = run.replay.once("within-memory", WithinMemory, lambda: _find(run, limit_bytes))
    run.record_other_work()
    baseline, search = run.baseline, run.search
    default, current = search.default, search.current
    if found.current is not None and not found.holds(found.current):
        current = None
    if found.base is not None:
        model, failed = run.plan_runs.model_of(found.base, run.budget.left_s)
        if model is None:
            raise MeasurementError(failed, where=baseline.side.label)
        baseline.side = replace(baseline.side, plan=found.base, runs=model)
        run.side, default = baseline.side, found.base
    search.compare_with(default, current)
    return found


def proposals(run: Measuring, allow: Sequence[str]) -> list[Plan]:
    """Return plans that often need less memory than the default, smaller batches first."""
    side = run.side
    scope = scope_of(run, side.plan, "memory", allow)
    changes, _ = scope.settings(facts.facts_of(side.model.ir), run.host.effective_cpus)
    plans = [Plan(settings=change.settings) for change in changes if change.prior >= FIRST]
    return [*in_rows(run), *plans] if side.plan.provider_names == (CPU.name,) else plans


def rewritten(run: Tuning, allow: Sequence[str], pace: Pace) -> list[Plan]:
    """Return plans for all exact rewrites together, and for each other allowed rewrite that needs no calibration.

    Rewrites can reduce the number and the size of the values that are alive at once, or the size of the weights.
    """
    baseline = run.baseline
    model, work = baseline.side.model, baseline.work
    if model.in_ort_format or baseline.side.plan.provider_names != (CPU.name,):
        return []
    row = rewrites.pipeline(model.ir, workload=work, objective="memory", begins=pace.begins)
    proposed = rewrites.proposals(
        model.ir,
        [*allow, *(["numerics"] if baseline.options.tolerance is not None else [])],
        workload=work,
        objective="memory",
        packages=baseline.side.runtime.packages,
        begins=pace.begins,
    )
    kinds = ((spec, rewrites.find(spec.name)) for spec, _ in proposed)
    others = [spec for spec, kind in kinds if kind.safety != "exact" and not kind.calibrated]
    found = [
        *([row] if row else []),
        *(with_cleanup(unsaturated(spec, model.ir, baseline.host), row) for spec in others),
    ]
    return [Plan(rewrites=specs, settings=rewrites.settings_for(specs)) for specs in found]


def in_rows(run: Measuring) -> list[Plan]:
    """Return plans that split each call into smaller batches, if a call of the workload has more rows."""
    axes = batch_axes(run.side.model.ir)
    rows = [
        choice.shape[axes[choice.name]]
        for case in run.work.cases
        for choice in case.inputs
        if choice.name in axes
    ]
    return [Plan(settings={ROWS_PER_RUN.name: most}) for most in ROWS if max(rows, default=1) > most]


def _find(run: Tuning, limit_bytes: int) -> WithinMemory:
    baseline, current = run.baseline, run.search.current
    first = _memory_try(run, baseline.side.plan, _trial(run, "default", baseline.side.plan))
    if first.peak_bytes is None:
        raise MeasurementError(
            first.failed or "this system does not report the memory of a process",
            where="--max-memory",
            do="omit it",
        )
    now = None
    if current not in (None, baseline.side.plan):
        now = _memory_try(run, current, _trial(run, "current", current))
    found = WithinMemory(limit_bytes=limit_bytes, default=first, current=now)
    if found.holds(first):
        return found
    tried = _tries(run, first)
    inside = sorted((each for each in tried if found.holds(each)), key=lambda each: each.latency_ns)
    tried.sort(key=lambda each: each.peak_bytes or limit_bytes * 1000)
    if inside:
        return msgspec.structs.replace(found, base=inside[0].plan, tried=tuple(tried))
    ran = [each for each in (*tried, first) if not each.failed and each.peak_bytes is not None]
    least = min(ran, key=lambda each: each.peak_bytes or 0)
    at_least = -(-(least.peak_bytes or 0) // 2**20)
    do = f"pass at least --max-memory {at_least}m, smaller sizes, or a quantized model"
    if run.skipped:
        do = (
            f"{len(run.skipped)} more were not tested: rerun with --budget {as_option(run.checks_s)}; or {do}"
        )
    raise MeasurementError(
        f"no configuration needs less than {memory(limit_bytes)}; of {len(ran)}, "
        f"{least.plan.describe()} needs the least: {memory(least.peak_bytes)}",
        where="--max-memory",
        do=do,
        code="over-memory",
    )


def _tries(run: Tuning, first: MemoryTry) -> list[MemoryTry]:
    """Run each change separately, then all changes together that need less memory than the default."""
    baseline = run.baseline
    plan, pace = baseline.side.plan, run.pace(WITHIN_MEMORY_SHARE)
    tried: list[MemoryTry] = []
    allow = run.search.race.allowed
    for change in [*proposals(baseline, allow), *rewritten(run, allow, pace)]:
        whole = with_change(plan, change, Plan())
        if whole is not None and whole != plan and pace.begins(change.describe()):
            tried.append(_memory_try(run, whole, _trial(run, f"less-{len(tried)}", whole)))
    together = plan
    for each in sorted(tried, key=lambda each: each.peak_bytes or 0):
        if not each.failed and (each.peak_bytes or 0) < LESS * (first.peak_bytes or 0):
            together = with_change(together, each.plan, Plan(settings=together.settings)) or together
    if together not in (plan, *(each.plan for each in tried)) and pace.begins(together.describe()):
        tried.append(_memory_try(run, together, _trial(run, "less-together", together)))
    run.record_skipped(pace, WITHIN_MEMORY_SHARE)
    return tried


def _trial(run: Tuning, name: str, plan: Plan) -> Outcome | str:
    """Run a plan in one process over all sizes and return the outcome, or the reason if its model cannot be created."""
    model, failed = run.plan_runs.model_of(plan, REWRITING_SHARE * run.budget.left_s)
    if model is None:
        return failed
    executor = run.baseline.executor
    with executor.keeping_last(), executor.without_warmup():
        return executor.trial(
            run.baseline.arm(name, plan=plan, model=model), runs=RUNS, keep_outputs=True, fresh=True
        )


def _memory_try(run: Tuning, plan: Plan, outcome: Outcome | str) -> MemoryTry:
    if isinstance(outcome, str):
        return MemoryTry(plan=plan, failed=outcome)
    if not isinstance(outcome, Measured):
        return MemoryTry(plan=plan, failed=f"{outcome.reason}: {outcome.what}")
    tolerance = run.plan_runs.tolerance_of(plan)
    difference = output_check.from_own(run.baseline, outcome, tolerance, plan.rewrites)
    kept = outcome.done.kept
    return MemoryTry(
        plan=plan,
        peak_bytes=outcome.done.peak_bytes,
        idle_bytes=kept.idle_bytes if kept is not None else None,
        latency_ns=figure(outcome, "mean") or 0.0,
        failed="" if difference.ok else difference.what,
    )
