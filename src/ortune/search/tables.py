"""Creates the tables of a tuning result: the value of each setting, all plans, trade-offs, and all blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from ortune.catalogue.knobs import all_knobs
from ortune.records import (
    BlockPoint,
    Candidate,
    Figures,
    Measured,
    Plan,
    PlanStatus,
    Refused,
    SettingWorth,
    TradeRow,
)
from ortune.rewrites import find as find_rewrite
from ortune.search import packages
from ortune.search.blocks import BASE, IDENTICAL, SPIKE, log_ratios, measured
from ortune.search.figures import describe, figure
from ortune.search.halving import CURRENT, Entry
from ortune.search.loss import WORTH_LOSS
from ortune.search.reasons import ENDED, Reason
from ortune.search.refine import Costs
from ortune.search.state import Search
from ortune.stats import pairs
from ortune.stats.intervals import robust_scale
from ortune.stats.multiplicity import holm

CLAIMED = 0.05
UNCHANGED = 1.0, 1.0  # ratio of the default to itself


def settings(search: Search, winner: Plan, trials: Sequence[Measured]) -> tuple[SettingWorth, ...]:
    """Return the value of each setting and rewrite of the winner, followed by the removed settings and rewrites."""
    read_back = {r.knob: r.level for r in trials[-1].done.read_back} if trials else {}
    # A rewrite is visible in the loaded file.
    read_back |= dict.fromkeys((spec.name for spec in winner.rewrites), "effect" if trials else "none")
    parts = [(name, str(value)) for name, value in winner.settings.items()]
    parts += [(spec.name, "") for spec in winner.rewrites]
    dropped = [name for name in search.ablation if name not in {n for n, _ in parts}]
    # If it is the only part of the plan, its value is the confirmed difference to the default, whatever its
    # value with other parts was.
    alone = (
        search.comparison(search.winner.arm)
        if search.winner and search.confirmation and len(parts) == 1
        else None
    )
    paying = _paying({name: search.ablation[name] for name, _ in parts if name in search.ablation})
    rows = []
    for name, value in [*parts, *((name, "") for name in dropped)]:
        kept = name not in dropped
        if alone is not None and kept:
            # The comparison is with / without and the table without / with, so the two ends swap.
            low, middle, high = (
                1 / x if x else None for x in (alone.ratio_high, alone.ratio, alone.ratio_low)
            )
            shown = alone.verdict == "faster"
        else:
            low, middle, high = _cost(search.ablation.get(name, np.empty(0)))
            shown = name in paying
        rows.append(
            SettingWorth(
                name=name,
                value=value,
                without_ratio=middle,
                without_low=low,
                without_high=high,
                kept=kept,
                shown=shown,
                why="" if kept else "removed: no gain",
                summary=_summary(name),
                read_back=read_back.get(name, "none"),
            )
        )
    return tuple(rows)


def _cost(ratios: Costs) -> tuple[float | None, float | None, float | None]:
    """Return the cost of leaving out a part as ratios (low, middle, high), each None with fewer than three blocks."""
    if len(ratios) < 3:
        return None, None, None
    interval = pairs.wilcoxon_interval(ratios)
    return (
        interval.ratio_low,
        interval.ratio,
        interval.ratio_high if np.isfinite(interval.ratio_high) else None,
    )


def _paying(costs: dict[str, Costs]) -> set[str]:
    """Return the parts whose omission has a significant cost, by a one-sided test at 5 % with Holm's correction."""
    measured_ = {name: d for name, d in costs.items() if len(d)}
    p = [pairs.wilcoxon(d) / 2 if np.median(d) > 0 else 1.0 for d in measured_.values()]
    return {name for name, adjusted in zip(measured_, holm(p), strict=True) if adjusted <= CLAIMED}


def _summary(name: str) -> str:
    knob = all_knobs().get(name)
    return knob.summary if knob else find_rewrite(name).summary


def candidates(
    search: Search,
    proposed: Sequence[Entry],
    shipped: Plan,
    refused: Refused | None,
    *,
    worded: Callable[[Reason], str],
    exploring: bool = False,
) -> tuple[Candidate, ...]:
    """Return the records of all plans that were proposed or built, with measurements and outcome, fastest first.

    Args:
        search: The search.
        proposed: Proposed plans that were not added to the race.
        shipped: The plan that is shipped.
        refused: The leader if it is not shipped; otherwise None.
        worded: Returns the sentence for a reason.
        exploring: Whether nothing is confirmed.
    """
    rows = []
    only_timed = search.race.timed_only  # not a candidate
    listed = {only_timed.arm} if only_timed is not None else set()
    for entry in [*search.race.entries.values(), *proposed]:
        if entry.arm in listed:
            continue
        listed.add(entry.arm)
        status, why = entry.status, entry.why
        if entry.plan == shipped:
            status, why = "winner", None
        elif search.race.with_current and entry.plan == search.current:
            status, why = "current", None
        elif entry.plan == search.default:
            status, why = "default", None
        elif refused is not None and entry.plan == refused.plan:
            status, why = "eliminated", Reason(code="refused", text=refused.why)
        elif status is None and not entry.ratios:
            status, why = "not-tried", Reason(code="budget-before-it-ran")
        elif status == "not-tried" and entry.ratios:
            status, why = "eliminated", Reason(code="budget-after-one-block")
        elif status is None and not exploring and search.is_passed_over(entry):
            status, why = "eliminated", Reason(code="small-lossy-gain", share_ratio=WORTH_LOSS)
        elif status is None and not exploring and packages.left_for_package(search, entry, shipped):
            status, why = "eliminated", Reason(code="not-adopted", share_ratio=search.worth_adopting)
        elif status is None:
            status = "eliminated"
            nothing_led = exploring or search.winner is None
            why = Reason(code="not-confirmed" if nothing_led else "another-led")
        interval = pairs.wilcoxon_interval(np.asarray(entry.ratios)) if len(entry.ratios) >= 2 else None
        # When exploring, a single observation is shown; otherwise one block is not enough.
        once = float(np.exp(entry.ratios[0])) if exploring and len(entry.ratios) == 1 else None
        rows.append(
            Candidate(
                plan=entry.plan,
                origin=entry.origin,
                status=status,
                why=worded(why) if why is not None else "",
                reason=_reason(entry, status),
                ratio=interval.ratio if interval else once,
                ratio_low=interval.ratio_low if interval else None,
                ratio_high=interval.ratio_high if interval and np.isfinite(interval.ratio_high) else None,
                n_blocks=len(entry.ratios),
                figures=describe(entry.trials, search.judgement.statistic) if entry.trials else None,
                outputs=entry.outputs,
            )
        )
    return tuple(sorted(rows, key=lambda c: (c.ratio is None, c.ratio or 0.0)))


def _reason(entry: Entry, status: PlanStatus) -> Literal["budget", "guard"] | None:
    """Return "budget" if a plan was not tried for lack of budget, "guard" if a guard rejected it, otherwise None."""
    if status == "not-tried" and entry.why in (None, ENDED):
        return "budget"
    return "guard" if status == "eliminated" and entry.worsens else None


def trade(
    search: Search, shipped: Plan, winner_trials: Sequence[Measured], default: Figures
) -> tuple[TradeRow, ...]:
    """Return the plans with the lowest latency, CPU time and memory, among the default and plans with correct outputs.

    Plans were measured at different times, and the state of a machine changes. So each plan is judged by its ratio to
    the default in the same blocks, and its values are this ratio times the default's.
    """
    plans = {BASE: search.default, **{e.arm: e.plan for e in search.race.entries.values() if e.is_sound}}
    if search.race.with_current and search.current is not None:
        plans[CURRENT] = search.current
    ratios = {
        statistic: _relative(search, list(plans), statistic) for statistic in ("median", "cpu", "memory")
    }
    own = {"latency": "fastest", "cpu": "least CPU time", "memory": "least memory"}.get(search.race.objective)
    rows = []
    for title, statistic in (("fastest", "median"), ("least CPU time", "cpu"), ("least memory", "memory")):
        mine = title == own
        best = BASE if mine else min(ratios[statistic], key=lambda arm: ratios[statistic][arm][1])
        plan, figures = plans[best], default
        if mine:
            plan = shipped
            stays = CURRENT if search.race.with_current and shipped == search.current else BASE
            trials = list(winner_trials) or measured(search.confirmation, stays)
            figures = describe(trials, search.judgement.statistic) if trials else default
            if not trials and stays in ratios[statistic]:
                best = stays  # not confirmed, so it has its ratio to the default in the race
        latency, cpu, memory = (of_arm.get(best, UNCHANGED)[0] for of_arm in ratios.values())
        rows.append(
            TradeRow(
                title=title,
                plan=plan,
                latency_ns=figures.latency_ns * latency,
                cpu_per_run_ns=figures.cpu_per_run_ns * cpu,
                peak_bytes=figures.peak_bytes * memory if figures.peak_bytes is not None else None,
                confirmed=mine and bool(winner_trials),
                kept=mine and not winner_trials,
                n_blocks=0
                if mine or best == BASE
                else len(log_ratios(search.race.all_blocks, best, statistic)),
            )
        )
    return tuple(rows)


def _relative(search: Search, arms: Sequence[str], statistic: str) -> dict[str, tuple[float, float]]:
    """Return (ratio to the default in the same blocks, likely upper bound of this ratio) by arm.

    The bound is needed because most plans leave the race after a few blocks, and the best of many noisy ratios is best
    by chance. The noise is estimated over all arms together, since few have enough blocks. Arms with fewer than two
    blocks are omitted; the default is first, with ratio 1.
    """
    logs = {arm: log_ratios(search.race.all_blocks, arm, statistic) for arm in arms if arm != BASE}
    logs = {arm: values for arm, values in logs.items() if len(values) >= 2}
    middle = {arm: float(np.median(values)) for arm, values in logs.items()}
    if not logs:
        return {BASE: UNCHANGED}
    # Deviations of few values from their own median are too small by this factor.
    apart = [
        (values - middle[arm]) * np.sqrt(len(values) / (len(values) - 1)) for arm, values in logs.items()
    ]
    noise = robust_scale(np.concatenate(apart))
    return {BASE: UNCHANGED} | {
        arm: (float(np.exp(m)), float(np.exp(m + 2 * noise / np.sqrt(len(logs[arm])))))
        for arm, m in middle.items()
    }


def points(search: Search) -> list[BlockPoint]:
    """Return all blocks as points for a chart."""
    names = {BASE: "default", IDENTICAL: "identical", SPIKE: "spike", CURRENT: "current"}
    if search.race.timed_only is not None:
        names[search.race.timed_only.arm] = "wrong default"
    rows = []
    for i, block in enumerate(search.blocks):
        values = {}
        for trial in block.trials:
            value = (
                figure(trial.outcome, search.judgement.statistic)
                if isinstance(trial.outcome, Measured)
                else None
            )
            if value is not None:
                values[names.get(trial.arm, trial.arm)] = value
        rows.append(
            BlockPoint(
                index=i,
                phase=block.phase if block.phase != "pilot" else "calibration",
                values=values,
                dropped=block.dropped,
            )
        )
    return rows
