"""Computes guards and per-shape results from the blocks of the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from ortune.objectives import Objective
from ortune.records import Block, CaseResult, FigureChange, Guard, Measured, Plan, Workload
from ortune.search.blocks import BASE, NEW, log_ratios, measured, pairs
from ortune.search.figures import FROM_START, LEAST_PROCESSES, WAITED, figure, samples
from ortune.stats import calibration, evidence, tails
from ortune.stats.pairs import wilcoxon_interval

GUARDS = ("mean", "p95", "memory", "cpu")
NAMES = {"mean": "mean", "memory": "peak memory", "cpu": "CPU time"}


OF_MEMORY: dict[str, Literal["idle", "released"]] = {"memory:idle": "idle", "memory:released": "released"}
"""Names of the memory statistics in a list of changes."""


def guards(
    blocks: Sequence[Block], objective: Objective, *, arm: str = NEW, base: str = BASE
) -> tuple[Guard, ...]:
    """Return the guards for mean, p95, memory and CPU time of an arm relative to the base, except the objective's."""
    old = measured(blocks, base)
    both = pairs(blocks, arm, base)
    # A pair is (ours, theirs); the base comes first here.
    p95 = tails.grouped_log_ratios([samples(t) for _, t in both], [samples(t) for t, _ in both], 0.95)
    ratios_by_guard = {
        "mean": calibration.guard("mean", log_ratios(blocks, arm, "mean", base=base)),
        "p95": calibration.guard("p95", p95),
        "memory": calibration.guard(
            "memory",
            log_ratios(blocks, arm, "memory", base=base),
            base_bytes=_peak(old),
        ),
        "cpu": calibration.guard("cpu", log_ratios(blocks, arm, "cpu", base=base)),
    }
    ratios_by_guard.pop(_improved_statistic(objective), None)
    return tuple(ratios_by_guard.values())


def other_changes(
    blocks: Sequence[Block], statistic: str, *, arm: str = NEW, base: str = BASE, alone: Sequence[Block] = ()
) -> tuple[FigureChange, ...]:
    """Return further changes: p50 if another statistic was compared, load time, and idle and released memory.

    Except when starts are compared, the trials of a block load at the same time, unlike in use. So the load time is
    taken from the blocks in ``alone``, which have one process at a time.
    """
    ratios_by_figure: dict[Literal["p50", "load", "idle", "released"], np.ndarray] = {}
    if statistic not in ("paired", "median"):
        ratios_by_figure["p50"] = log_ratios(blocks, arm, "paired", base=base)
    starts = blocks if statistic in FROM_START else alone
    loads = [(ours.done.load_ns, theirs.done.load_ns) for ours, theirs in pairs(starts, arm, base)]
    ratios_by_figure["load"] = np.log([ours / theirs for ours, theirs in loads if ours and theirs])
    if statistic.startswith("memory"):
        # Peak memory is a guard, or the objective.
        ratios_by_figure["idle"] = log_ratios(blocks, arm, "memory:idle", base=base)
        ratios_by_figure["released"] = log_ratios(blocks, arm, "memory:released", base=base)
        if statistic in OF_MEMORY:
            del ratios_by_figure[OF_MEMORY[statistic]]
    changes = []
    for name, ratios in ratios_by_figure.items():
        if len(ratios) >= LEAST_PROCESSES:
            interval = wilcoxon_interval(ratios)
            changes.append(
                FigureChange(
                    figure=name,
                    ratio=interval.ratio,
                    ratio_low=interval.ratio_low,
                    ratio_high=interval.ratio_high,
                )
            )
    return tuple(changes)


def waived(plan: Plan, default: Plan) -> tuple[str, ...]:
    """Return the guards that are reported for a plan but do not affect the decision.

    Another execution provider loads its own library, whatever the model: some 50 MB for OpenVINO, and most of a
    gigabyte for a GPU driver. With a default of 100 MB, the guard would refuse every such plan, however fast. The
    memory is reported with the verdict, as a cost of adopting the plan.
    """
    return () if plan.provider_names[0] == default.provider_names[0] else ("memory",)


def broken_guard(
    blocks: Sequence[Block], objective: Objective, allowed: Sequence[str], *, arm: str, base: str = BASE
) -> str:
    """Return a text about the guard that a plan breaks in the race, with the option that allows it; "" if none.

    The confirmation would refuse the plan, so it need not be confirmed. Since nothing is claimed, it is enough that
    three quarters of two or more blocks exceed the limit. The p95 needs more runs than a race has.
    """
    for name in ("mean", "memory", "cpu"):
        if name == _improved_statistic(objective) or name in allowed:
            continue
        ratios = log_ratios(blocks, arm, name, base=base)
        if len(ratios) < 2:
            continue
        peak = _peak(measured(blocks, base)) if name == "memory" else None
        limit = calibration.guard_limit(name, peak)
        if np.quantile(ratios, 0.25) > np.log(limit):
            worse = 100 * np.expm1(np.median(ratios))
            return f"{NAMES[name]} {worse:+.0f} %, limit {100 * (limit - 1):+.0f} % (--allow {name})"
    return ""


def over_memory(trials: Sequence[Measured], limit_bytes: int | None) -> str:
    """Return a phrase with the largest peak memory of trials if it exceeds a limit; else ""."""
    peak = max((t.done.peak_bytes or 0 for t in trials), default=0)
    return f"peak {peak / 2**20:.0f} MiB" if limit_bytes is not None and peak > limit_bytes else ""


def _improved_statistic(objective: Objective) -> str:
    """Return the statistic that the objective improves, which is not one of its guards."""
    return {"throughput": "mean"}.get(objective, objective)


def _peak(trials: Sequence[Measured]) -> float | None:
    peaks = [t.done.peak_bytes for t in trials if t.done.peak_bytes]
    return float(np.median(peaks)) if peaks else None


def case_results(
    blocks: Sequence[Block],
    work: Workload,
    statistic: str,
    prior_scale: float | None = None,
    *,
    arm: str = NEW,
    base: str = BASE,
    fixed: bool = False,
) -> tuple[CaseResult, ...]:
    """Return the result for each shape of a mix; () for a single shape.

    With ``fixed``, for a number of blocks that was fixed in advance, the intervals are Wilcoxon's.
    """
    if len(work.cases) < 2 or not measured(blocks, arm) or statistic not in WAITED:
        return ()
    results = []
    for case in work.cases:
        d = log_ratios(blocks, arm, statistic, case=case.name, base=base)
        if not len(d):
            continue
        interval = wilcoxon_interval(d) if fixed else evidence.confidence_sequence(d, 0.05, prior_scale)
        old, new = (
            [figure(t, statistic, case.name) or np.nan for t in measured(blocks, which)]
            for which in (base, arm)
        )
        results.append(
            CaseResult(
                case=case.name,
                weight=case.weight,
                base_ns=float(np.median(old)),
                new_ns=float(np.median(new)),
                ratio=interval.ratio,
                ratio_low=interval.ratio_low,
                ratio_high=interval.ratio_high if np.isfinite(interval.ratio_high) else None,
            )
        )
    return tuple(results)
