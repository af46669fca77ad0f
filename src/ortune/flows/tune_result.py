"""From what a tuning measured to the record that reports and bundles read."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ortune import platform
from ortune.bundle.snippet import python_lines
from ortune.knobs import all_knobs
from ortune.records import (
    Block,
    BlockPoint,
    BudgetReport,
    Candidate,
    Comparison,
    Measured,
    Plan,
    Refused,
    SettingWorth,
    Side,
    TradeRow,
    TuneResult,
)
from ortune.report import tune_words
from ortune.rewrites import find as find_rewrite
from ortune.search.blocks import BASE, IDENTICAL, SPIKE, measured
from ortune.search.figures import WORDS, describe, figure
from ortune.search.guards import case_results
from ortune.search.race import CURRENT, Entry
from ortune.stats import detect, intervals, pairs

if TYPE_CHECKING:
    from ortune.flows.tune import Tuning

BUSY_SHARE = 0.25  # of the time, from which on a machine where some task waits for a CPU is not idle


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
    earlier = [*run.calibration, *race_blocks]
    default_trials = measured(run.confirmation, BASE) or measured(earlier, BASE)
    current_trials = measured(run.confirmation, CURRENT) or measured(earlier, CURRENT)
    winner_trials = measured(run.confirmation, run.winner.arm) if run.winner and won else []
    estimand = run.judgement.estimand
    result = TuneResult(
        side=Side(label=run.side.label, model=run.side.model.info, plan=Plan(), runtime=run.side.runtime),
        objective=run.o.objective,
        estimand=WORDS[estimand],
        worth_ratio=run.o.worth,
        winner=shipped,
        changes=shipped != stays,
        refused=refused,
        current=run.current,
        default_figures=describe(default_trials, estimand),
        current_figures=describe(current_trials, estimand) if current_trials else None,
        winner_figures=describe(winner_trials, estimand) if winner_trials else None,
        against_default=against_default,
        against_current=against_current,
        outputs=run.winner.outputs if run.winner and won else None,
        settings=_settings(run, shipped, winner_trials) if won else (),
        candidates=_candidates(run, proposed, shipped, refused),
        trade=_trade(run, shipped, winner_trials),
        cases=()
        if not won
        else case_results(
            run.confirmation,
            run.ground.work,
            estimand,
            arm=run.winner.arm if run.winner else BASE,
            base=CURRENT if run.with_current else BASE,
            fixed=True,
        ),
        controls=run.judgement.controls,
        findings=tuple(run.ground.findings),
        notes=(
            *run.ground.work.notes,
            *run.ground.notes,
            *_pod_notes(run),
            *([refused.why] if refused else []),
        ),
        not_tried=run.refused,
        budget=BudgetReport(
            budget_s=run.o.budget_s,
            trial_s=run.ground.trial_ns / 1e9,
            promise=run.promise,
            calibration_s=run.spent["calibration"] / 1e9,
            race_s=run.spent["race"] / 1e9,
            confirm_s=run.spent["confirm"] / 1e9,
            n_trials=sum(len(b.trials) for b in [*run.calibration, *race_blocks, *run.confirmation]),
        ),
        points=tuple(_points(run)),
        rewritten=", ".join(spec.name for spec in shipped.rewrites),
        hardware_bound=any(find_rewrite(r.name).hardware_bound for r in shipped.rewrites),
        allowed=tuple(run.o.allow),
        code=code_lines(shipped, run.side.model.path.name),
        reproduce=_reproduce(run),
        session=run.log.id,
        elapsed_s=run.clock() / 1e9,
        caution=_caution(run),
        conditions=_conditions(run),
        smallest_effect_ratio=_smallest(run),
        headroom=run.headroom,
    )
    return msgspec.structs.replace(result, headline=tune_words.headline(result))


def _comparisons(run: Tuning) -> tuple[Comparison | None, Comparison | None]:
    if run.winner is None or not run.confirmation or run.winner.fate == "failed":
        return None, None
    current = run.comparison(run.winner.arm, CURRENT) if run.with_current else None
    return run.comparison(run.winner.arm), current


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
    failed = [g.figure for g in against.guards if g.failed and g.figure not in run.o.allow]
    if against.verdict != "faster":
        why = f"{plan.describe()} led the race and did not confirm: {name} stays"
    elif against.ratio > 1 - run.o.worth:
        why = (
            f"{plan.describe()} gains less than the {100 * run.o.worth:g} % that are worth a change (--worth): "
            f"{name} stays"
        )
    elif failed:
        names = ", ".join(failed)
        why = f"{plan.describe()} is faster and makes {names} worse: {name} stays (--allow {names})"
    else:
        return plan, None
    return stays, Refused(plan=plan, comparison=against, why=why)


def code_lines(plan: Plan, model: str) -> str:
    """The lines to paste; a rewritten model is named as what it is."""
    lines = python_lines(plan, model, platform.allocators())
    if not plan.rewrites:
        return lines
    names = ", ".join(spec.name for spec in plan.rewrites)
    return f"# the model as rewritten ({names}), which lies in the bundle\n{lines}"


def _settings(run: Tuning, winner: Plan, trials: Sequence[Measured]) -> tuple[SettingWorth, ...]:
    read_back = {r.knob: r.level for r in trials[-1].done.read_back} if trials else {}
    parts = [(name, str(value)) for name, value in winner.settings.items()]
    parts += [(spec.name, "") for spec in winner.rewrites]
    dropped = [name for name in run.pruning if name not in {n for n, _ in parts}]
    found = []
    for name, value in [*parts, *((name, "") for name in dropped)]:
        ratios = run.pruning.get(name, np.empty(0))
        interval = pairs.wilcoxon_interval(ratios) if len(ratios) >= 3 else None
        if parts == [(name, value)] and run.confirmation:
            # Alone in the plan: what it is worth is the confirmed difference to the default, whatever it was worth
            # beside others that are gone.
            alone = run.comparison(run.winner.arm) if run.winner else None
            if alone and alone.ratio_high:
                found.append(
                    SettingWorth(
                        name=name,
                        value=value,
                        without_ratio=1 / alone.ratio,
                        without_low=1 / alone.ratio_high,
                        without_high=1 / alone.ratio_low if alone.ratio_low else None,
                        kept=True,
                        summary=_summary(name),
                        read_back=read_back.get(name, "none"),
                    )
                )
                continue
        found.append(
            SettingWorth(
                name=name,
                value=value,
                without_ratio=interval.ratio if interval else None,
                without_low=interval.ratio_low if interval else None,
                without_high=interval.ratio_high if interval and np.isfinite(interval.ratio_high) else None,
                kept=name not in dropped,
                why="left out: it does not pay" if name in dropped else "",
                summary=_summary(name),
                read_back=read_back.get(name, "none"),
            )
        )
    return tuple(found)


def _summary(name: str) -> str:
    knob = all_knobs().get(name)
    return knob.summary if knob else find_rewrite(name).summary


def _candidates(
    run: Tuning, proposed: Sequence[Entry], shipped: Plan, refused: Refused | None
) -> tuple[Candidate, ...]:
    found = []
    seen = set()
    for entry in [*run.race.entries.values(), *proposed]:
        if entry.arm in seen:
            continue
        seen.add(entry.arm)
        fate, why = entry.fate, entry.why
        if entry.plan == shipped:
            fate, why = "winner", ""
        elif run.with_current and entry.plan == run.current:
            fate, why = "current", ""
        elif entry.plan == Plan():
            fate, why = "default", ""
        elif refused is not None and entry.plan == refused.plan:
            fate, why = "retired", refused.why
        elif fate is None and not entry.ratios:
            fate, why = "not-tried", "the budget did not hold it"
        elif fate is None:
            fate, why = "retired", "another plan was faster"
        interval = pairs.wilcoxon_interval(np.asarray(entry.ratios)) if len(entry.ratios) >= 2 else None
        found.append(
            Candidate(
                plan=entry.plan,
                origin=entry.origin,
                fate=fate,
                why=why,
                ratio=interval.ratio if interval else None,
                ratio_low=interval.ratio_low if interval else None,
                ratio_high=interval.ratio_high if interval and np.isfinite(interval.ratio_high) else None,
                n_blocks=len(entry.ratios),
                figures=describe(entry.trials, run.judgement.estimand) if entry.trials else None,
                outputs=entry.outputs,
            )
        )
    return tuple(sorted(found, key=lambda c: (c.ratio is None, c.ratio or 0.0)))


def _trade(run: Tuning, shipped: Plan, winner_trials: Sequence[Measured]) -> tuple[TradeRow, ...]:
    """Fastest, least CPU a run, least memory, among the default and the plans with correct outputs."""
    pool: list[tuple[Plan, list[Measured]]] = [(Plan(), measured([*run.calibration, *run.race.blocks], BASE))]
    pool += [
        (e.plan, e.trials)
        for e in run.race.entries.values()
        if len(e.trials) >= 2 and e.fate not in ("failed", "wrong-output")
    ]
    own = {"latency": "fastest", "cpu": "least CPU a run", "memory": "least memory"}.get(run.o.objective)
    rows = []
    for title, estimand in (("fastest", "median"), ("least CPU a run", "cpu"), ("least memory", "memory")):
        plan, trials = min(
            pool, key=lambda p: float(np.median([figure(t, estimand) or np.inf for t in p[1]]))
        )
        confirmed = title == own
        if confirmed:
            plan = shipped
            stays = CURRENT if run.with_current and shipped == run.current else BASE
            trials = (
                list(winner_trials)
                or measured(run.confirmation, stays)
                or next((t for p, t in pool if p == shipped), trials)
            )
        seen = describe(trials, run.judgement.estimand)
        rows.append(
            TradeRow(
                title=title,
                plan=plan,
                latency_ns=seen.latency_ns,
                cpu_per_run_ns=seen.cpu_per_run_ns,
                peak_bytes=seen.peak_bytes,
                confirmed=confirmed and bool(run.confirmation),
            )
        )
    return tuple(rows)


def _points(run: Tuning) -> list[BlockPoint]:
    """Every block as a picture needs it."""
    names = {BASE: "default", IDENTICAL: "identical", SPIKE: "spike", CURRENT: "current"}
    found = []
    everything: list[Block] = [*run.calibration, *run.race.blocks, *run.confirmation]
    for i, block in enumerate(everything):
        values = {}
        for trial in block.trials:
            value = (
                figure(trial.outcome, run.judgement.estimand) if isinstance(trial.outcome, Measured) else None
            )
            if value is not None:
                values[names.get(trial.arm, trial.arm)] = value
        found.append(
            BlockPoint(
                index=i,
                phase=block.phase if block.phase != "pilot" else "calibration",
                values=values,
                dropped=block.dropped,
            )
        )
    return found


def _caution(run: Tuning) -> str:
    """The default's pool knows nothing of a quota: where it is larger than what may be used, beating it is easy."""
    host = run.host
    if host.effective_cpus >= host.cores or run.with_current:
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


def _conditions(run: Tuning) -> str:
    """How busy the machine was while calibrating, by the share of time in which some task waited for a CPU."""
    waits = [
        t.sensors.psi_cpu_some_us * 1e3 / max(1, t.elapsed_ns)
        for t in _trials(run.calibration)
        if t.sensors.psi_cpu_some_us is not None
    ]
    if not waits:
        return ""
    return "on an idle machine" if float(np.median(waits)) < BUSY_SHARE else "on a busy machine"


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


def _reproduce(run: Tuning) -> str:
    """The command that does this again, with everything that was asked."""
    o, i = run.o, run.o.inputs
    words = [
        "ortune",
        "tune",
        str(run.side.model.path),
        "--budget",
        f"{o.budget_s:.0f}s",
        "--seed",
        str(o.seed),
    ]
    for option, value, usual in (
        ("--objective", o.objective, "latency"), ("--current", o.current, None), ("--plan", o.plan, None),
        ("--worth", f"{100 * o.worth:g}%", "1%"), ("--python", o.python, None), ("--inputs", i.inputs, None),
        ("--workload", i.workload, None), ("--gap", f"{i.gap_ns / 1e6:g}ms", "0ms"),
        ("--sessions", i.sessions, 1), ("--callers", i.callers, 1), ("--tolerance", i.tolerance, None),
        ("--cpus", i.pod.cpus if i.pod else None, None),
        ("--memory", i.pod.memory_bytes if i.pod else None, None),
    ):  # fmt: skip
        words += [] if value == usual else [option, str(value)]
    for option, texts in (
        ("--set", o.settings), ("--rewrite", o.rewrites), ("--allow", o.allow), ("--custom-ops", i.custom_ops),
    ):  # fmt: skip
        for text in texts:
            words += [option, text]
    for name, shape in i.shapes.items():
        words += ["--shape", f"{name}:{'x'.join(map(str, shape))}"]
    for name, mix in i.dims.items():
        words += ["--dim", f"{name}={','.join(f'{v}:{w:g}' for v, w in mix)}"]
    return shlex.join(words)
