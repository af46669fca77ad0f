"""From what a tuning measured to the record that reports and bundles read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ortune.bundle.snippet import python_lines
from ortune.records import (
    Block,
    BlockPoint,
    BudgetReport,
    Comparison,
    Figures,
    Measured,
    Plan,
    Refused,
    Side,
    TuneResult,
)
from ortune.report import tune_words
from ortune.report.numbers import duration
from ortune.rewrites import find as find_rewrite
from ortune.search import confirm
from ortune.search.blocks import BASE, failures, measured, restless
from ortune.search.figures import WORDS, describe
from ortune.search.guards import case_results
from ortune.search.race import CURRENT, GUARDED, Entry
from ortune.search.tables import candidates, points, settings, trade
from ortune.stats import detect, intervals
from ortune.verbs._options import command

if TYPE_CHECKING:
    from ortune.verbs._tuning import Tuning

IDLE_SHARE, BUSY_SHARE = 0.05, 0.25
"""Of the time in which some task waits for a CPU: below the one a machine is idle, above the other it is busy."""


AWAKE_SHARE = 0.2
"""CPU time of waiting trials over their wall time from which on it is told; the clock of other threads has a grain."""

LEAST_SEEN, PHASES = 18, 1.25
"""Blocks from which on the default's own times are looked at, and the ratio of their ninth to their first decile from
which on they are told."""


def make_result(run: Tuning, proposed: Sequence[Entry]) -> TuneResult:
    """The whole answer."""
    against_default, against_current = _comparisons(run)
    led = run.winner.plan if run.winner is not None and against_default is not None else None
    stays = run.current if run.current is not None and run.with_current else Plan()
    shipped, refused = _decide(run, against_default, against_current, stays)
    won = led is not None and shipped == led
    if not won:
        # What was measured against is the plan that stays; today's own is compared with the default.
        today = run.with_current and bool(run.confirmation)
        against_default, against_current = run.comparison(CURRENT) if today else None, None
    race_blocks = run.race.blocks
    earlier = run.race.seen
    default_trials = measured(run.confirmation, BASE) or measured(earlier, BASE)
    current_trials = measured(run.confirmation, CURRENT) or measured(earlier, CURRENT)
    winner_trials = measured(run.confirmation, run.winner.arm) if run.winner and won else []
    estimand = run.judgement.estimand
    default_figures = describe(default_trials, estimand, [run.baseline.first, *measured(run.alone, BASE)])
    seen = tuple(points(run))
    result = TuneResult(
        side=Side(label=run.side.label, model=run.side.model.info, plan=Plan(), runtime=run.side.runtime),
        objective=run.options.objective,
        estimand=WORDS[estimand],
        worth_ratio=run.options.worth_ratio,
        winner=shipped,
        changes=shipped != stays,
        refused=refused,
        fell=_fell(run),
        current=run.current,
        default_figures=default_figures,
        current_figures=describe(current_trials, estimand, measured(run.alone, CURRENT))
        if current_trials
        else None,
        winner_figures=_of_winner(run, winner_trials) if winner_trials else None,
        against_default=against_default,
        against_current=against_current,
        alone=_alone(run),
        outputs=run.winner.outputs if run.winner and won else None,
        settings=settings(run, shipped, winner_trials) if won else (),
        candidates=candidates(run, proposed, shipped, refused),
        trade=trade(run, shipped, winner_trials, default_figures),
        cases=()
        if not won
        else case_results(
            run.confirmation,
            run.baseline.work,
            estimand,
            arm=run.winner.arm if run.winner else BASE,
            base=CURRENT if run.with_current else BASE,
            fixed=True,
        ),
        controls=tuple(run.controls),
        findings=tuple(run.baseline.findings),
        notes=(
            *run.baseline.work.notes,
            *run.baseline.notes,
            *_pod_notes(run),
            *([refused.why] if refused else []),
            *_guarded(run),
            *awake(restless(earlier)),
            *_phases(run, seen),
        ),
        not_tried=run.refused,
        budget=BudgetReport(
            budget_s=run.options.budget_s,
            trial_s=run.baseline.trial_ns / 1e9,
            promise=run.promise,
            calibration_s=run.spent["calibration"] / 1e9,
            race_s=run.spent["race"] / 1e9,
            confirm_s=run.spent["confirm"] / 1e9,
            n_trials=sum(
                len(b.trials) for b in [*run.calibration, *race_blocks, *run.confirmation, *run.alone]
            ),
        ),
        points=seen,
        rewritten=", ".join(spec.name for spec in shipped.rewrites),
        hardware_bound=any(find_rewrite(r.name).hardware_bound for r in shipped.rewrites),
        allowed=tuple(run.options.allow),
        code=code_without_bundle(
            shipped,
            run.side.model.path,
            run.models.made(shipped),
            run.baseline.machine.allocators,
        ),
        reproduce=command("tune", run.options),
        session=run.log.id,
        elapsed_s=run.clock() / 1e9,
        caution=_caution(run),
        conditions=_conditions(run),
        smallest_effect_ratio=_smallest(run),
        headroom=run.headroom,
    )
    return msgspec.structs.replace(result, headline=tune_words.headline(result))


def _of_winner(run: Tuning, trials: Sequence[Measured]) -> Figures:
    assert run.winner is not None
    return describe(trials, run.judgement.estimand, measured(run.alone, run.winner.arm) or run.starts)


def _comparisons(run: Tuning) -> tuple[Comparison | None, Comparison | None]:
    if run.winner is None or not run.confirmation or run.winner.fate == "failed":
        return None, None
    current = run.comparison(run.winner.arm, CURRENT) if run.with_current else None
    return run.comparison(run.winner.arm), current


def _alone(run: Tuning) -> Comparison | None:
    """What the last check, one process at a time, says of the plan that was confirmed."""
    if run.winner is None or not run.alone:
        return None
    base = CURRENT if run.with_current else BASE
    return confirm.compare(
        run.alone, run.winner.arm, run.judgement.estimand, base=base, delta=run.options.worth_ratio
    )


def _decide(
    run: Tuning, found: Comparison | None, current: Comparison | None, stays: Plan
) -> tuple[Plan, Refused | None]:
    """What is shipped, and the race's leader where that is not it."""
    if run.winner is None or found is None:
        return stays, None
    plan = run.winner.plan
    name = "what runs today" if run.with_current else "the default"
    against = current if run.with_current else found
    if against is None or plan == stays:
        return plan, None
    failed = [g.figure for g in against.guards if g.failed and g.figure not in run.options.allow]
    alone = _alone(run)
    fell = failures(run.alone, run.winner.arm)
    if fell:
        why = f"{plan.describe()} failed where no other process was alive ({fell[-1].reason}): {name} stays"
    elif against.verdict == "faster" and alone is not None and alone.ratio_low > 1:
        why = f"{plan.describe()} is faster taking turns and slower alone: {name} stays"
    elif against.verdict != "faster":
        why = f"{plan.describe()} led the race and did not confirm: {name} stays"
    elif against.ratio > 1 - run.options.worth_ratio:
        why = (
            f"{plan.describe()} gains less than the {100 * run.options.worth_ratio:g} % that are worth a change "
            f"(--worth): {name} stays"
        )
    elif failed:
        names, allow = ", ".join(failed), " ".join(f"--allow {figure}" for figure in failed)
        why = f"{plan.describe()} is better and makes {names} worse: {name} stays ({allow})"
    else:
        return plan, None
    return stays, Refused(plan=plan, comparison=against, why=why)


def _phases(run: Tuning, seen: Sequence[BlockPoint]) -> list[str]:
    """A default that changes by itself: on a shared machine that is a neighbour, whom no counter here shows."""
    values = [p.values["default"] for p in seen if "default" in p.values and not p.dropped]
    if run.judgement.estimand == "memory" or len(values) < LEAST_SEEN:
        return []
    low, high = np.quantile(values, (0.1, 0.9))
    if high < PHASES * low:
        return []
    return [
        f"the default itself took {duration(low)} to {duration(high)} in this session: the machine has phases, and "
        "what is best may differ between them; ortune compare proves a bundle again, whenever you like"
    ]


def _fell(run: Tuning) -> str:
    """The leader that failed while it was confirmed."""
    if run.winner is None or run.winner.fate != "failed" or not run.confirmation:
        return ""
    return f"{run.winner.plan.describe()} {run.winner.why}"


def _guarded(run: Tuning) -> list[str]:
    """The fastest plan that the race left aside because something else gets worse, for those who do not mind."""
    worth = np.log1p(-run.options.worth_ratio)
    found = [
        e
        for e in run.race.entries.values()
        if e.fate == "retired" and e.why.startswith(GUARDED) and e.middle < worth
    ]
    if not found:
        return []
    best = min(found, key=lambda e: e.middle)
    ahead = f"{100 * np.expm1(best.middle):+.0f} % in {len(best.ratios)} blocks"
    return [
        f"{best.plan.describe()} was ahead of the default in the race ({ahead}) and was left aside: {best.why}"
    ]


def code_without_bundle(plan: Plan, model: Path, made: Path | None, allocators: Mapping[str, str]) -> str:
    """The lines to paste where the place of a bundle is not known.

    Args:
        plan: What is shipped.
        model: The user's file.
        made: What the plan runs, ``model`` itself where its rewrites changed nothing; None where it has none.
        allocators: Those of this machine, with their libraries.
    """
    if made in (None, model):
        return python_lines(plan, model.name, allocators)
    # No file is called so: these lines must not load the model of before.
    return code_rewritten(plan, f"{model.stem}-rewritten.onnx", allocators)


def code_rewritten(plan: Plan, model: str, allocators: Mapping[str, str]) -> str:
    """The lines to paste for a rewritten model at that place, which is named as what it is."""
    names = ", ".join(spec.name for spec in plan.rewrites)
    lines = python_lines(plan, model, allocators)
    return f"# the model as rewritten ({names}), which a bundle holds\n{lines}"


def _caution(run: Tuning) -> str:
    """The default's pool knows nothing of a quota: where it is larger than what may be used, beating it is easy."""
    host = run.host
    if host.effective_cpus >= host.cores or run.current is not None:
        return ""
    usable = "1 CPU" if host.effective_cpus == 1 else f"{host.effective_cpus} CPUs"
    return (
        f"the default starts {host.cores} threads where {usable} may be used, so beating it is no "
        "feat (--current names what you run today)"
    )


def _pod_notes(run: Tuning) -> list[str]:
    """Throttling while measuring, beyond one period in a hundred."""
    trials = _trials([*run.calibration, *run.race.blocks, *run.confirmation])
    periods = sum(t.sensors.nr_periods or 0 for t in trials)
    throttled = sum(t.sensors.nr_throttled or 0 for t in trials)
    if throttled <= 0.01 * periods:
        return []
    return [f"the CPU quota throttled {100 * throttled / periods:.0f} % of the periods while measuring"]


def awake(share: float | None) -> list[str]:
    """That trials did not sleep while others had their turn, where they did not."""
    if share is None or share < AWAKE_SHARE:
        return []
    return [
        f"trials that waited for their turn kept {100 * share:.0f} % of a CPU busy, which disturbed the others"
    ]


def _conditions(run: Tuning) -> str:
    """How busy the machine was while calibrating, by the share of time in which some task waited for a CPU."""
    waits = [
        t.sensors.psi_cpu_some_us * 1e3 / max(1, t.sensors.elapsed_ns or t.elapsed_ns)
        for t in _trials(run.calibration)
        if t.sensors.psi_cpu_some_us is not None
    ]
    if not waits:
        return ""
    share = float(np.median(waits))
    # What other guests of the same host do shows in no counter here: then a known wait is not found either.
    unseen = any(c.name == "spike-in" and not c.detected for c in run.controls)
    if share >= BUSY_SHARE:
        return "on a busy machine"
    return "" if unseen or share >= IDLE_SHARE else "on an idle machine"


def _trials(blocks: Sequence[Block]) -> list[Measured]:
    """Every completed trial, whichever arm, dropped blocks included."""
    return [t.outcome for b in blocks for t in b.trials if isinstance(t.outcome, Measured)]


def _smallest(run: Tuning) -> float | None:
    """What the race's own blocks could have seen, where nothing was confirmed."""
    best = max((len(e.ratios) for e in run.race.entries.values()), default=0)
    if best < 6:
        return None
    entry = max(run.race.entries.values(), key=lambda e: len(e.ratios))
    scale = intervals.robust_scale(np.asarray(entry.ratios))
    found = detect.smallest_effect(scale, best, method="wilcoxon")
    return found if np.isfinite(found) else None
