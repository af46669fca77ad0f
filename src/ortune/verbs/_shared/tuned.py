"""Builds the result of a tuning: the shipped plan, the tables, and notes about the session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ortune import rules
from ortune.catalogue.providers import WEB_WASM as WASM  # the provider that every browser runs
from ortune.engines.quantizing import precision_table
from ortune.engines.racing import pasted
from ortune.engines.racing.entering import next_ns
from ortune.engines.racing.provider_costs import provider_costs
from ortune.engines.racing.tuning import Tuning
from ortune.measuring.sides import ResolvedSide
from ortune.records import (
    Adoption,
    BlockPoint,
    Candidate,
    Comparison,
    Figures,
    Finding,
    Measured,
    Plan,
    Refused,
)
from ortune.rewrites import find as find_rewrite
from ortune.runtimes import made
from ortune.search.blocks import BASE, awake_warning, measured
from ortune.search.figures import WORDS, describe
from ortune.search.guards import case_results, waived
from ortune.search.halving import CURRENT, Entry
from ortune.search.state import Search
from ortune.search.tables import candidates, points, settings, trade
from ortune.show import finding_words
from ortune.show.message_words import text, texts
from ortune.show.sides import with_values
from ortune.verbs._shared import shipped as shipping
from ortune.verbs._shared import tuned_conditions, tuned_words
from ortune.verbs._shared.other_programs import without_comparison, worded
from ortune.verbs._shared.tune_facts import deciding_claim, detectable_effect, untried_plans
from ortune.verbs._shared.tune_headline import leading
from ortune.verbs.tune.result import BudgetReport, TuneResult, WithinMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decision:
    """The plan that a search ships, with the evidence for it.

    Attributes:
        shipped: The plan to ship.
        refused: The fastest plan and the reason that it is not shipped; None if it is, or if there is none.
        winner: The confirmed plan that is shipped; None if the plan that runs today or the default stays.
        against_default: Confirmed comparison of the winner, or else of the current plan, with the default.
        against_current: Confirmed comparison of the winner with the current plan.
    """

    shipped: Plan
    refused: Refused | None
    winner: Entry | None
    against_default: Comparison | None
    against_current: Comparison | None


def _decide(search: Search) -> _Decision:
    with_current = search.race.with_current
    tried = search.winner if search.winner and search.confirmation and search.winner.is_sound else None
    against_default = worded(search.comparison(tried.arm)) if tried else None
    against_current = worded(search.comparison(tried.arm, CURRENT)) if tried and with_current else None
    shipped, refused = shipping.decide(search, against_default, against_current)
    winner = tried if tried and against_default and shipped == tried.plan else None
    if winner is None:
        # What was measured against is the plan that stays; today's own is compared with the default.
        today = with_current and bool(search.confirmation)
        against_default, against_current = worded(search.comparison(CURRENT)) if today else None, None
    return _Decision(
        shipped=shipped,
        refused=refused,
        winner=winner,
        against_default=against_default,
        against_current=against_current,
    )


def make_result(run: Tuning, enough_s: float = 0.0, within: WithinMemory | None = None) -> TuneResult:
    """Return the whole result of a tuning, except for the headline, the profile and other fields that callers set.

    Args:
        run: The tuning, with the race and the confirmation.
        enough_s: Sufficient budget to report, in seconds; 0 for the race's estimate.
        within: Result of the search within a memory limit; None without a limit.
    """
    search, race, statistic = run.search, run.search.race, run.search.judgement.statistic
    decision = _decide(search)
    shipped, winner = decision.shipped, decision.winner
    default, current = (
        measured(search.confirmation, arm) or measured(race.all_blocks, arm) for arm in (BASE, CURRENT)
    )
    default = default or [run.baseline.pilot.first]  # if the budget held only the pilot
    default_figures = describe(default, statistic, [run.baseline.pilot.first, *measured(search.alone, BASE)])
    current_figures = describe(current, statistic, measured(search.alone, CURRENT)) if current else None
    won, winner_figures = _winner_figures(run, winner)
    block_points, unspent_ns = tuple(points(search)), run.unspent_ns
    mended = _rewritable(run)
    enough_s = enough_s or run.enough_s or run.checks_s  # an answer names one budget
    rows = candidates(
        search, run.entries, shipped, decision.refused, worded=tuned_words.reason, exploring=run.exploring
    )
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
        refused=decision.refused,
        failed_leader=shipping.failed_leader(search),
        current=search.current,
        default_figures=default_figures,
        current_figures=current_figures,
        winner_figures=winner_figures,
        costs=provider_costs(run, shipped, winner_figures, default_figures),
        against_default=decision.against_default
        and with_values(
            decision.against_default, default_figures, winner_figures if winner else current_figures
        ),
        against_current=decision.against_current
        and with_values(decision.against_current, current_figures, winner_figures),
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
        notes=_notes(run, decision.refused, block_points, enough_s),
        rejected=shipping.rejected(search),
        not_tried=run.refused,
        untested_targets=run.untested,
        budget=_budget(run, rows, enough_s, unspent_ns),
        points=block_points,
        precision=precision_table.table(run.precision, rows, run.side.model.size_bytes),
        calibration=run.calibration if run.precision else None,
        rewritten=", ".join(spec.name for spec in shipped.rewrites),
        hardware_bound=any(find_rewrite(r.name).hardware_bound for r in shipped.rewrites),
        allowed=(*race.allowed, *waived(shipped, race.default)),
        code=pasted.loading_lines(run.baseline, shipped, run.models.made(shipped)),
        session=run.log.id,
        elapsed_s=run.now_ns / 1e9,
        caution=tuned_conditions.caution(run),
        conditions=tuned_conditions.conditions(search),
        smallest_effect_ratio=search.smallest_effect_ratio(),
    )
    return _with_other_programs(
        run, msgspec.structs.replace(result, smallest_effect_ratio=detectable_effect(result))
    )


def _winner_figures(run: Tuning, winner: Entry | None) -> tuple[list[Measured], Figures | None]:
    """Return the winner's trials in the confirmation, and their figures; [] and None without a winner."""
    search = run.search
    if winner is None:
        return [], None
    won = measured(search.confirmation, winner.arm)
    alone = measured(search.alone, winner.arm) or search.starts
    written = run.baseline.executor.first_load_ns(winner.arm, winner.plan)
    return won, describe(won, search.judgement.statistic, alone, written) if won else None


def _notes(
    run: Tuning, refused: Refused | None, block_points: Sequence[BlockPoint], enough_s: float
) -> tuple[str, ...]:
    """Return the notes of a tuning: on its inputs, checks, refused plan, machine and load."""
    search = run.search
    return (
        *run.baseline.work.notes,
        *texts(run.baseline.notes),
        *tuned_conditions.throttled(search.blocks),
        *([finding_words.skipped_checks(run.skipped, enough_s)] if run.skipped else []),
        *([refused.why] if refused else []),
        *shipping.faster_under_load(search),
        *texts(awake_warning(search.race.all_blocks)),
        *tuned_conditions.phases(search.judgement.statistic, block_points),
    )


def _budget(run: Tuning, rows: Sequence[Candidate], enough_s: float, unspent_ns: float) -> BudgetReport:
    search = run.search
    next_s = next_ns(run) / 1e9 if unspent_ns else 0.0
    unspent = tuned_words.unspent(
        unspent_ns / 1e9,
        run.whole_budget.total_s,
        next_s,
        next((c.plan.describe() for c in untried_plans(rows)), ""),
        confirmed=bool(search.confirmation),
        enough_s=enough_s,
    )
    return BudgetReport(
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
        next_s=next_s,
        unspent=unspent if search.blocks else "",
    )


def _with_other_programs(run: Tuning, result: TuneResult) -> TuneResult:
    """Return the result with a record of other programs, which may explain that nothing was claimed."""
    if deciding_claim(result) is not None:
        return result
    leader = leading(result)
    others = without_comparison(
        tuned_conditions.trials(run.search.blocks) or [run.baseline.pilot.first],
        run.baseline.host,
        leader.plan if leader is not None else None,
        run.search.current or run.search.default,
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
    if run.side.model.in_ort_format:
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
