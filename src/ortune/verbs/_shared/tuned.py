"""Builds the result of a tuning: the shipped plan, the tables, and notes about the session."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from ortune import rules
from ortune.catalogue.providers import WEB_WASM as WASM  # the provider that every browser runs
from ortune.engines.quantizing import precision_table
from ortune.engines.racing import pasted
from ortune.engines.racing.entering import next_ns
from ortune.engines.racing.provider_costs import provider_costs
from ortune.engines.racing.tuning import Tuning
from ortune.measuring.sides import ResolvedSide
from ortune.records import (
    BUSY_MACHINE,
    Adoption,
    Block,
    BlockPoint,
    Comparison,
    Figures,
    Finding,
    Measured,
    Plan,
)
from ortune.rewrites import find as find_rewrite
from ortune.runtimes import made
from ortune.search.blocks import BASE, awake_warning, measured
from ortune.search.figures import WORDS, describe
from ortune.search.guards import case_results, waived
from ortune.search.halving import CURRENT
from ortune.search.state import Search
from ortune.search.tables import candidates, points, settings, trade
from ortune.show import finding_words
from ortune.show.message_words import text, texts
from ortune.show.sides import with_values
from ortune.verbs._shared import shipped as shipping
from ortune.verbs._shared import tuned_words
from ortune.verbs._shared.other_programs import without_comparison, worded
from ortune.verbs._shared.tune_facts import deciding_claim, detectable_effect
from ortune.verbs._shared.tune_headline import leading
from ortune.verbs.tune.result import BudgetReport, TuneResult, WithinMemory

NEIGHBOUR = 0.5  # CPUs used by other processes (or their load, without that figure) that make a machine busy
IDLE_SHARE, BUSY_SHARE = 0.05, 0.25
"""Fractions of time in which a task waits for a CPU: the machine is idle below the first, busy from the second on."""

LEAST_SEEN, PHASES = 18, 1.25
"""Minimum number of blocks for a drift check of the default, and the ratio of its ninth to its first decile that counts
as drift.
"""


def make_result(run: Tuning, enough_s: float = 0.0, within: WithinMemory | None = None) -> TuneResult:
    """Return the whole result of a tuning, except for the headline, the profile and other fields that callers set.

    Args:
        run: The tuning, with the race and the confirmation.
        enough_s: Sufficient budget to report, in seconds; 0 for the race's estimate.
        within: Result of the search within a memory limit; None without a limit.
    """
    search, race, statistic = run.search, run.search.race, run.search.judgement.statistic
    tried = search.winner if search.winner and search.confirmation and search.winner.is_sound else None
    against_default = worded(search.comparison(tried.arm)) if tried else None
    against_current = worded(search.comparison(tried.arm, CURRENT)) if tried and race.with_current else None
    shipped, refused = shipping.decide(search, against_default, against_current)
    winner = tried if tried and against_default and shipped == tried.plan else None
    if winner is None:
        # What was measured against is the plan that stays; today's own is compared with the default.
        today = race.with_current and bool(search.confirmation)
        against_default, against_current = worded(search.comparison(CURRENT)) if today else None, None
    default, current = (
        measured(search.confirmation, arm) or measured(race.all_blocks, arm) for arm in (BASE, CURRENT)
    )
    default = default or [run.baseline.pilot.first]  # if the budget held only the pilot
    won = measured(search.confirmation, winner.arm) if winner else []
    default_figures = describe(default, statistic, [run.baseline.pilot.first, *measured(search.alone, BASE)])
    alone = measured(search.alone, winner.arm) or search.starts if winner else []
    written = run.baseline.executor.first_load_ns(winner.arm, winner.plan) if winner else None
    block_points, unspent_ns = tuple(points(search)), run.unspent_ns
    mended = _rewritable(run)
    enough_s = enough_s or run.enough_s or run.checks_s  # an answer names one budget
    rows = candidates(
        search, run.entries, shipped, refused, worded=tuned_words.reason, exploring=run.exploring
    )
    winner_figures = describe(won, statistic, alone, written) if won else None
    current_figures = describe(current, statistic, measured(search.alone, CURRENT)) if current else None
    against_default = against_default and with_values(
        against_default, default_figures, winner_figures if winner else current_figures
    )
    against_current = against_current and with_values(against_current, current_figures, winner_figures)
    result = TuneResult(
        side=msgspec.structs.replace(run.side.record, plan=Plan()),
        default=run.side.plan,
        wrong_default=run.baseline.check.wrong_plan,
        default_broken=run.baseline.lowered is not None,
        wrong_default_figures=_wrong_default(run),
        wrong_against_default=search.race_comparison(race.timed_only.arm)
        if race.timed_only is not None
        else None,
        objective=race.objective,
        statistic=WORDS[statistic],
        worth_ratio=race.worth,
        worth_adopting_ratio=search.worth_adopting,
        other_package=shipping.other_package(search, shipped),
        winner=shipped,
        # The right level replaces a wrong default even where nothing else is faster than it.
        changes=shipped != shipping.running_plan(search)
        or (run.baseline.check.wrong_plan is not None and search.current is None)
        or (within is not None and within.replaces),
        fallback=fallback(
            shipped,
            default=search.default,
            current=search.current,
            today=search.comparison(CURRENT) if race.with_current and search.confirmation else None,
        ),
        refused=refused,
        failed_leader=shipping.failed_leader(search),
        current=search.current,
        default_figures=default_figures,
        current_figures=current_figures,
        winner_figures=winner_figures,
        costs=provider_costs(run, shipped, winner_figures, default_figures),
        against_default=against_default,
        against_current=against_current,
        alone=search.comparison_alone(),
        outputs=winner.outputs if winner else None,
        made_by=_made_by(shipped, run.side),
        within_memory=within,
        settings=settings(search, shipped, won) if winner else (),
        candidates=rows,
        trade=trade(search, shipped, won, default_figures),
        cases=case_results(
            search.confirmation, run.baseline.work, statistic, arm=winner.arm, base=search.base, fixed=True
        )
        if winner
        else (),
        controls=tuple(search.controls),
        findings=(*run.baseline.findings, *mended),
        placement=won[-1].done.placement if won else (),
        ort_web=(won or default)[-1].done.ort_version if shipped.is_web else "",
        notes=(
            *run.baseline.work.notes,
            *texts(run.baseline.notes),
            *_throttled(search.blocks),
            *([finding_words.skipped_checks(run.skipped, enough_s)] if run.skipped else []),
            *([refused.why] if refused else []),
            *shipping.faster_under_load(search),
            *texts(awake_warning(race.all_blocks)),
            *_phases(statistic, block_points),
        ),
        rejected=shipping.rejected(search),
        not_tried=run.refused,
        untested_targets=run.untested,
        budget=BudgetReport(
            budget_s=run.whole_budget.total_s,
            trial_s=run.baseline.pilot.trial_ns / 1e9,
            promise=text(run.forecast),
            calibration_s=run.spent["calibration"] / 1e9,
            before_s=run.spent["before"] / 1e9,
            race_s=run.spent["race"] / 1e9,
            confirm_s=run.spent["confirm"] / 1e9,
            n_trials=sum(len(b.trials) for b in [*search.blocks, *search.alone]),
            enough_s=enough_s,
            exploratory=run.exploring,
            left_s=unspent_ns / 1e9,
            next_s=next_ns(run) / 1e9 if unspent_ns else 0.0,
        ),
        points=block_points,
        precision=precision_table.table(run.precision, rows, run.side.model.size_bytes),
        calibration=run.calibration if run.precision else None,
        rewritten=", ".join(spec.name for spec in shipped.rewrites),
        hardware_bound=any(find_rewrite(r.name).hardware_bound for r in shipped.rewrites),
        allowed=(*race.allowed, *waived(shipped, race.default)),
        code=pasted.loading_lines(run.baseline, shipped, run.models.made(shipped)),
        session=run.log.id,
        elapsed_s=run.now_ns / 1e9,
        caution=_caution(run),
        conditions=_conditions(search),
        smallest_effect_ratio=search.smallest_effect_ratio(),
    )
    result = msgspec.structs.replace(result, smallest_effect_ratio=detectable_effect(result))
    if deciding_claim(result) is not None:
        return result
    trials = _trials(search.blocks) or [run.baseline.pilot.first]
    leader = leading(result)
    others = without_comparison(
        trials,
        run.baseline.host,
        leader.plan if leader is not None else None,
        search.current or search.default,
    )
    return msgspec.structs.replace(result, others=others)


def _made_by(plan: Plan, side: ResolvedSide) -> str:
    """Return the packages, with versions, that made a plan's model; "" if ortune made the model alone."""
    needed = {find_rewrite(spec.name).needs for spec in plan.rewrites} - {""}
    if not needed:
        return ""
    installed = {package.name: package.version for each in made.installed() for package in each.packages}
    versions = {**installed, **side.runtime.packages}
    return ", ".join(f"{name} {versions.get(name, '')}".strip() for name in sorted(needed))


def _wrong_default(run: Tuning) -> Figures | None:
    """Return the figures of a default with wrong outputs, from its blocks or its single trial.

    None if the default is correct or was not measured.
    """
    race = run.search.race
    if race.timed_only is None:
        return None
    trials = measured(race.all_blocks, race.timed_only.arm) or race.timed_only.trials
    return describe(trials, run.search.judgement.statistic) if trials else None


def _rewritable(run: Tuning) -> list[Finding]:
    """Return the findings that a rewrite of the model fixes, with the measured effect of the rewrite."""
    if run.side.model.info.format == "ort":
        return []
    pace = run.answer_pace()
    facts = rules.Facts(
        model=run.side.model, work=run.baseline.work, fed=run.baseline.options.words, begins=pace.begins
    )
    findings = rules.findings(facts, without=("ENV", "MSR", "SES"))
    run.record_skipped(pace)
    mended = [f for f in findings if f.plan is not None and f.plan.rewrites and not f.plan.settings]
    return [msgspec.structs.replace(f, verified=_raced(run.search, f.plan or Plan())) for f in mended]


def _raced(search: Search, plan: Plan) -> Comparison | None:
    """Return the race's comparison of the default with a plan's rewrites alone; None if it has too few blocks."""
    names = {spec.name for spec in plan.rewrites}
    entries = search.race.entries.values()
    alone = (e for e in entries if not e.plan.settings and {s.name for s in e.plan.rewrites} == names)
    entry = next(alone, None)
    return search.race_comparison(entry.arm) if entry is not None else None


def fallback(shipped: Plan, *, default: Plan, current: Plan | None, today: Comparison | None) -> Plan | None:
    """Return the plan that a page uses on devices without a GPU.

    Args:
        shipped: First plan of the bundle.
        default: The default, which has correct outputs.
        current: The current plan; None if the user gave none.
        today: Comparison of the current plan with the default, in fresh blocks; None if there is none.

    Returns:
        The current plan if it is faster than the default and runs on WebAssembly, or else the default if it runs on
        WebAssembly. None if the shipped plan needs no fallback, or neither plan qualifies and is in the bundle.
    """
    if not shipped.is_web or WASM.name in shipped.provider_names:
        return None
    ranked = [current if today is not None and today.verdict == "faster" else None, default]
    # A bundle holds the untouched model and the winner's.
    in_bundle = (plan for plan in ranked if plan is not None and plan.rewrites in ((), shipped.rewrites))
    return next((plan for plan in in_bundle if plan.provider_names == (WASM.name,)), None)


def with_runtime(result: TuneResult, side: ResolvedSide) -> TuneResult:
    """Return the result with the winner's runtime and its installation, if this is not the default's runtime."""
    other = result.other_package
    if other is not None:
        priced = msgspec.structs.replace(other, adoption=adoption_of(side, other.plan))
        result = msgspec.structs.replace(result, other_package=priced)
    runtime = side.runtime_of(result.winner)
    if runtime == side.runtime:
        return result
    return msgspec.structs.replace(result, runtime=runtime, adoption=adoption_of(side, result.winner))


def adoption_of(side: ResolvedSide, plan: Plan) -> Adoption | None:
    """Return how to install a plan's runtime; None for the user's runtime and for a browser."""
    runtime = side.runtime_of(plan)
    return None if runtime == side.runtime or runtime.ort_web_dist else made.adoption(runtime, side.runtime)


def _phases(statistic: str, block_points: Sequence[BlockPoint]) -> list[str]:
    """Return a warning if the default's times drifted during the session, as on a shared machine; empty if stable."""
    values = [p.values["default"] for p in block_points if "default" in p.values and not p.dropped]
    if statistic.startswith("memory") or len(values) < LEAST_SEEN:
        return []
    low, high = np.quantile(values, (0.1, 0.9))
    if high < PHASES * low:
        return []
    return [tuned_words.drifted(low, high)]


def _caution(run: Tuning) -> str:
    """Return a caution if the default's thread pool exceeds the CPU quota, so that it is easy to beat; "" otherwise."""
    host = run.baseline.host
    if host.effective_cpus >= host.cores or run.search.current is not None:
        return ""
    return tuned_words.weak_default(host.cores, host.effective_cpus)


def _throttled(blocks: Sequence[Block]) -> list[str]:
    """Return a note if a CPU quota throttled more than one in a hundred periods of the measurement; empty otherwise."""
    sensors = [trial.sensors for trial in _trials(blocks)]
    periods = sum(s.nr_periods or 0 for s in sensors)
    throttled = sum(s.nr_throttled or 0 for s in sensors)
    if throttled <= 0.01 * periods:
        return []
    return [tuned_words.throttled(throttled / periods)]


def _conditions(search: Search) -> str:
    """Return "on an idle machine" or its opposite for a busy machine; "" if neither is certain.

    The decision is based on the fraction of time in which a task waited for a CPU, during the calibration or, without a
    calibration, during the search.
    """
    blocks = search.calibration or search.blocks
    waits = [ratio for t in _trials(blocks) if (ratio := t.sensors.waited_ratio(t.elapsed_ns)) is not None]
    if not waits:
        return ""
    share = float(np.median(waits))
    # Even if no task waits for a CPU, a neighbouring process lowers the clock rate and evicts caches.
    others = [
        sensors.load1 - (sensors.cpu_over_wall or 0.0)
        if sensors.others_cpu_us is None
        else sensors.others_cpu_us * 1e3 / max(1, sensors.elapsed_ns or t.elapsed_ns)
        for t in _trials(blocks)
        if (sensors := t.sensors).load1 is not None
    ]
    beside = bool(others) and float(np.median(others)) >= NEIGHBOUR
    # What other guests of the same host do shows in no counter here: then a known wait is not found either.
    unseen = any(c.name == "spike-in" and not c.detected for c in search.controls)
    if share >= BUSY_SHARE:
        return BUSY_MACHINE
    return "" if unseen or beside or share >= IDLE_SHARE else tuned_words.IDLE_MACHINE


def _trials(blocks: Sequence[Block]) -> list[Measured]:
    """Return the completed trials of all plans, including trials in dropped blocks."""
    return [t.outcome for b in blocks for t in b.trials if isinstance(t.outcome, Measured)]
