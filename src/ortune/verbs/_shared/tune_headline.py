"""The result of a tuning in at most two lines: the verdict, the gain, and the requirements of the change."""

from __future__ import annotations

import msgspec

from ortune import targets
from ortune.catalogue import providers
from ortune.durations import as_option, in_words
from ortune.printable import amount, amounts
from ortune.records import BUSY, BUSY_MACHINE, Candidate, Comparison, Plan
from ortune.search.loss import WORTH_LOSS
from ortune.show import headline as heads
from ortune.show import others_words, precision_words
from ortune.show import output_words as compare_outputs
from ortune.show import sides as two_sides
from ortune.show.checks import GUARD_NAMES
from ortune.show.numbers import change, detectable, factors, interval_name, percent, shorten_end, span, times
from ortune.verbs._shared import tuned_words, within_memory_words
from ortune.verbs._shared.adoption_words import adopting
from ortune.verbs._shared.tune_facts import (
    current_plan,
    deciding,
    deciding_claim,
    default_name,
    detectable_effect,
    keeps_current,
    measured_right,
    nothing_tested,
    only_corrects,
    plans_that_ran,
    stays_best,
    untried_plans,
    verdict,
    winner_precision,
)
from ortune.verbs.tune.result import TuneResult

LONGEST_PLAN, LONGEST_LEADER = 70, 60
"""Maximum lengths of a plan in a headline: a longer winner is given as counts, a longer leader is truncated."""


def headline(result: TuneResult) -> str:
    """Return the result in at most two lines: the verdict, the gain with its interval, and the change."""
    statistic, within = result.statistic, result.worth_ratio
    return heads.headline(verdict(result), *_after_verdict(result), statistic=statistic, within=within)


def limits(result: TuneResult) -> list[str]:
    """Return the sentences that qualify the headline."""
    wrong = [_wrong_default(result)] if result.wrong_default is not None else []
    wrong += within_memory_words.sentences(result)
    claim = deciding_claim(result)
    load = result.others if claim is None else claim.others
    others = [load.words] if load is not None else []
    if nothing_tested(result) or result.budget.exploratory:
        return [*wrong, *others]
    if keeps_current(result):
        return [*wrong, *others]
    return [*wrong, *others, *([result.caution] if result.caution else []), *_final(result)]


def _after_verdict(result: TuneResult) -> list[str]:
    """Return the parts of the headline after the verdict: the gain and the change, or why nothing changes."""
    if nothing_tested(result):
        why = _untested_words(result)
        return [why, *_rerun(result, why), *_runs_now(result)]
    if result.budget.exploratory:
        return _exploratory(result)
    return _stays(result) if keeps_current(result) else _gain(result)


def _wrong_default(result: TuneResult) -> str:
    """Return a sentence that says that the default is wrong or does not run, with the correct baseline."""
    if result.default_broken:
        return f"the default does not run; the baseline is {result.default.describe()}, which does"
    right = f"those of {result.default.describe()} are correct"
    figures, comparison = result.wrong_default_figures, result.wrong_against_default
    if figures is None:
        return f"the default's outputs are wrong (not timed); {right}"
    took = f"{two_sides.statistic_name(result.statistic)} {two_sides.value(figures, result.statistic)}"
    if comparison is None:
        return f"the default's outputs are wrong ({took}, a single observation); {right}"
    ratio, low, high = two_sides.as_shown(comparison)
    bounds_ = "too few blocks for an interval" if two_sides.no_interval(comparison) else span(low, high)
    against = f"{change(ratio)} against the correct default"
    blocks = amount(comparison.n_blocks, "block")
    return f"the default's outputs are wrong ({took}, {against}, {bounds_}, exploratory: {blocks}); {right}"


def lost_shapes(result: TuneResult) -> list[str]:
    """Return a phrase for each shape of a mix at which the winner is slower, because an overall gain would hide it."""
    return [
        f"SLOWER at {case.case} {change(case.ratio)} ({span(case.ratio_low, case.ratio_high)})"
        for case in result.cases
        if case.ratio_low > 1
    ]


def bounds(comparison: Comparison) -> str:
    """Return the interval of a comparison as speed-up factors: "1.09-1.13"."""
    return factors(comparison.ratio_low, comparison.ratio_high)


def _final(result: TuneResult) -> list[str]:
    """Return a list with a phrase on the inputs behind a quantized winner's accuracy; empty for other winners."""
    row = winner_precision(result)
    return [precision_words.calibration_basis(result.calibration, row)] if row and result.calibration else []


def gain_unit(ratio: float, statistic: str) -> str:
    """Return the words that follow a factor: "faster in p50", "faster to start", "less peak memory"."""
    kind, name = two_sides.kind(statistic), two_sides.statistic_name(statistic)
    if kind in ("memory", "cpu"):
        return f"{'less' if ratio <= 1 else 'the'} {name}"
    text = "faster" if ratio <= 1 else "slower"
    return f"{text} to start" if kind == "cold" else f"{text} in {name}"


def gain_words(comparison: Comparison) -> str:
    """Return the gain of a comparison: "1.11x faster in p50", "1.30x less peak memory"."""
    ratio = comparison.ratio
    return f"{times(max(ratio, 1 / ratio))} {gain_unit(ratio, comparison.statistic)}"


def blocks_words(comparison: Comparison) -> str:
    """Return the number of blocks behind a claim: "16 fresh blocks", "exploratory, 8 search blocks"."""
    if comparison.phase == "race":
        return f"exploratory, {amount(comparison.n_blocks, 'search block')}"
    return amount(comparison.n_blocks, "fresh block")


def _gain(result: TuneResult) -> list[str]:
    """Return the parts of the headline for a winner: its gain over the plan that runs now, and the change."""
    claim = deciding(result)
    if claim is None:
        plan = tuned_words.subject(result.winner.describe())
        return [f"{plan} looked fastest, but nothing was confirmed", *_runs_now(result)]
    now = current_plan(result) is not None
    base, arrow, new = both_values(result).partition(" -> ")
    if arrow:
        both = f"{'current ' if now else ''}{base} -> {new}"
    else:
        both = "against the current configuration" if now else ""
    said = ", ".join(filter(None, (heads.measured(claim, blocks_words(claim)), both)))
    with_ = f"with {_named(result)}" if result.winner != result.default else "with the untouched default"
    if claim.verdict != "faster":
        return [said, with_, _detectable_clause(result)]
    default = [] if result.winner == result.default or not now else [_default_takes(result)]
    difference = outputs(result)
    return [
        said,
        with_,
        *lost_shapes(result),
        *two_sides.more_memory(claim),
        *default,
        *([difference] if difference else []),
    ]


def _runs_now(result: TuneResult, *, keep: bool = False) -> list[str]:
    """Return phrases on the current configuration and the default if they differ; with ``keep``, on the one to keep."""
    if only_corrects(result):
        return [f"set {result.default.describe()}"]
    if current_plan(result) is None:
        return ["keep the default"] if keep else []
    of, figures = two_sides.statistic_name(result.statistic), result.current_figures
    value = two_sides.value(figures, result.statistic) if figures is not None else ""
    if keep:
        return [
            f"keep the current configuration{f' ({of} {value})' if value else ''}",
            _default_takes(result),
        ]
    return [*([f"the current configuration takes {value} in {of}"] if value else []), _default_takes(result)]


def _default_takes(result: TuneResult) -> str:
    return f"the {default_name(result)} takes {two_sides.value(result.default_figures, result.statistic)}"


def _rerun(result: TuneResult, said: str) -> list[str]:
    """Return a hint to rerun with a sufficient budget; empty if it is unknown or ``said`` already contains a budget."""
    enough_s = result.budget.enough_s
    return [f"rerun with --budget {as_option(enough_s)}"] if enough_s and "--budget" not in said else []


def both_values(result: TuneResult) -> str:
    """Return the compared statistic before and after the change: "11.0 ms -> 9.90 ms"; "" without a comparison."""
    base = result.current_figures if current_plan(result) is not None else result.default_figures
    comparison = deciding(result)
    return (
        two_sides.values(base, result.winner_figures or result.default_figures, comparison)
        if comparison
        else ""
    )


def interval_of(comparison: Comparison) -> str:
    """Return the name of a comparison's interval, with its level: "95 % interval"."""
    return interval_name(comparison.level)


def _named(result: TuneResult) -> str:
    """Return the winner in words: its new runtime, if any, then its changes, or their number if the list is long."""
    plan, runtime = result.winner, result.runtime
    changes = plan if runtime is None else msgspec.structs.replace(plan, providers=())
    said = changes.describe()
    if len(said) > LONGEST_PLAN:
        said = amounts((len(plan.rewrites), "rewrite"), (len(plan.settings), "setting"))
    if runtime is None:
        return said
    # "OpenVINO (onnxruntime-ep-openvino 1.8.1)": the wheel of a provider with a separate wheel, otherwise the build.
    wheel = next((runtime.plugins[n] for n in plan.provider_names if n in runtime.plugins), runtime.build)
    names = ", ".join(providers.short_name(p.name) for p in plan.providers)
    runs_on = f"{names} ({wheel})" if names else wheel
    return f"{runs_on} and {said}" if changes != Plan() else runs_on


def other_package(result: TuneResult) -> str:
    """Return a phrase on the best plan with (or without) another package; "" if none was confirmed."""
    other = result.other_package
    if other is None or (result.refused is not None and result.refused.plan == other.plan):
        return ""
    claim = other.comparison
    which = "without" if other.adoption is None else "with"
    figure = heads.measured(claim, blocks_words(claim))
    takes = f"; {adopting(other.adoption)}" if other.adoption is not None else ""
    plan = shorten_end(other.plan.describe(), LONGEST_LEADER)
    return f"{which} another package: {figure} with {plan}{takes}"


def leading(result: TuneResult) -> Candidate | None:
    """Return the candidate that looks fastest in an exploratory result; None if no gain is worth a change."""
    if not result.budget.exploratory:
        return None
    wanted = (c for c in measured_right(result.candidates) if c.reason != "guard")
    best = min(wanted, key=lambda c: c.ratio or 1.0, default=None)
    return best if best is not None and (best.ratio or 1.0) < 1 - result.worth_ratio else None


def _exploratory(result: TuneResult) -> list[str]:
    """Return phrases on the plan that looks fastest, why it was not confirmed, and a sufficient budget."""
    best = leading(result)
    n = len(plans_that_ran(result.candidates))
    which = "the only configuration tried" if n == 1 else f"the {n} configurations tried"
    if best is not None and best.ratio is not None:
        gain = f"{times(1 / best.ratio)} {gain_unit(best.ratio, result.statistic)}"
        blocks = amount(best.n_blocks, "block")
        looks = "looks fastest" if best.n_blocks < 2 else f"looks {gain}"
        where = f" {BUSY_MACHINE}" if result.conditions == BUSY_MACHINE else ""
        plan = tuned_words.subject(best.plan.describe())
        text = f"{plan} {looks}{where} (exploratory: {blocks}, unconfirmed)"
    else:
        text = (
            f"nothing looks faster than the {default_name(result)} among {which} (exploratory, unconfirmed)"
        )
    short = f"{in_words(result.budget.budget_s)} is too short to"
    failed = any(not control.ok for control in result.controls)
    why = f"{short} repeat the failed checks" if failed else f"{short} confirm one change"
    return [text, why, *_rerun(result, "")]


def _stays(result: TuneResult) -> list[str]:
    """Return phrases that say that no gain was confirmed, with the closest plan and the minimum detectable effect."""
    refused, n = result.refused, _tried_words(result)
    rest = [*_runs_now(result, keep=stays_best(result)), _detectable_clause(result)]
    if refused is None or result.failed_leader:
        failed = f"the leader failed: {result.failed_leader}" if result.failed_leader else ""
        return [f"no gain confirmed among {n}", failed, *rest]
    if refused.comparison.verdict == "faster":
        return [
            f"no change proposed, after {n}",
            _not_proposed(result, refused.comparison),
            *_runs_now(result),
        ]
    said = heads.measured(refused.comparison, blocks_words(refused.comparison))
    # What was ahead in the search and is not in the confirmation is the best of nothing.
    which = "the best of" if refused.comparison.ratio < 1 else "which led the search among"
    return [f"{said} with {_leader(result)}, {which} {n}", *rest]


def acceptance(result: TuneResult) -> list[str]:
    """Return the options that accept the drawbacks of a faster leader; empty if it was not refused for drawbacks."""
    claim = result.refused.comparison if result.refused else None
    if claim is None or claim.verdict != "faster" or claim.ratio > 1 - result.worth_ratio:
        return []
    if result.refused is not None and result.refused.lossy:
        return []
    if not_adopted(result):
        assert result.refused is not None
        return ["--targets", targets.target_of(result.refused.plan).name]
    names: list[str] = [guard.figure for guard in claim.guards if guard.failed]
    names += [BUSY] if others_words.only_under_load(claim) else []
    return [word for name in names for word in ("--allow", name)]


def not_adopted(result: TuneResult) -> bool:
    """Return whether a faster leader was refused because it gains too little to justify another package."""
    other, refused = result.other_package, result.refused
    return (
        refused is not None
        and other is not None
        and other.plan == refused.plan
        and not any(guard.failed for guard in refused.comparison.guards)
        and 1 - result.worth_adopting_ratio < refused.comparison.ratio <= 1 - result.worth_ratio
    )


def _not_proposed(result: TuneResult, claim: Comparison) -> str:
    """Return a phrase on why a faster plan is not shipped."""
    gain = f"{tuned_words.subject(_leader(result))} is {gain_words(claim)} ({interval_of(claim)} {bounds(claim)})"
    if result.refused is not None and result.refused.lossy:
        least = times(1 / (1 - WORTH_LOSS))
        return f"{gain}, but outputs may change beyond rounding only for a confirmed {least} or more"
    if claim.ratio > 1 - result.worth_ratio:
        return f"{gain}, less than the {percent(result.worth_ratio)} that justifies a change"
    if not_adopted(result):
        least = percent(result.worth_adopting_ratio)
        return f"{gain}, less than the {least} that justify another package ({' '.join(acceptance(result))})"
    failed = [g for g in claim.guards if g.failed]
    if not failed and others_words.only_under_load(claim):
        return f"{gain} under load, which is no default ({' '.join(acceptance(result))})"
    worse = " and ".join(f"{GUARD_NAMES[g.figure]} {change(g.ratio or 1)}" for g in failed)
    return f"{gain}, but {worse}, more than allowed ({' '.join(acceptance(result))})"


def _untested_words(result: TuneResult) -> str:
    """Return a phrase on why nothing was tested."""
    why = "no other configuration is possible or allowed here"
    if not result.budget.n_trials and result.budget.promise:
        why = result.budget.promise
    elif untried_plans(result.candidates) or not result.budget.n_trials:
        why = "the budget ran out before any other configuration ran"
    elif not_made := [c.why for c in result.candidates if c.status == "not-tried" and c.why]:
        why = not_made[0]
    return why


def _leader(result: TuneResult) -> str:
    """Return the refused leader's plan in words, truncated to ``LONGEST_LEADER`` characters."""
    return shorten_end(result.refused.plan.describe() if result.refused else "the leader", LONGEST_LEADER)


def _tried_words(result: TuneResult) -> str:
    """Return the number of configurations that ran, and the conditions: "7 configurations on an idle machine"."""
    n = len(plans_that_ran(result.candidates))
    which = ["the only configuration tried" if n == 1 else f"{n} configurations"]
    if n and not any(c.n_blocks for c in plans_that_ran(result.candidates)):
        which = [
            "the only configuration tried, which failed"
            if n == 1
            else f"{n} configurations, which all failed"
        ]
    which += [f"for these {len(result.cases)} shapes"] if len(result.cases) > 1 else []
    conditions = [result.conditions] if result.conditions and result.refused is None else []
    return " ".join([*which, *conditions])


def _detectable_clause(result: TuneResult) -> str:
    """Return a phrase on the minimum detectable effect, or that it is unknown."""
    return _detectable(result) or "the minimum detectable effect is not known"


def _detectable(result: TuneResult) -> str:
    """Return a phrase on the effect that could be, or was, detected; "" if it is unknown."""
    share = detectable_effect(result)
    if share is not None:
        return f"minimum detectable effect {detectable(share)}"
    for control in result.controls:
        if control.name == "spike-in" and control.detected and control.expected_ratio:
            return f"an artificial {change(control.expected_ratio)} slowdown was detected"
    return ""


def outputs(result: TuneResult) -> str:
    """Return a phrase on how close the winner's outputs are to the default's outputs; "" if they were not compared."""
    difference = result.outputs
    if difference is None:
        return ""
    if not difference.ok:
        return f"outputs differ: {difference.what}"
    if row := winner_precision(result):
        return precision_words.error(row.outputs or difference)
    return f"outputs {compare_outputs.closeness(difference)}"


HERE = "."
"""Path of a bundle as shown on the page inside the bundle."""


def bundled(result: TuneResult) -> str:
    """Return the path of the bundle, with the plan that it contains if no change is proposed."""
    if not keeps_current(result):
        return result.bundle
    which = f"the {'current' if current_plan(result) is not None else 'default'} configuration"
    which = result.default.describe() if only_corrects(result) else which
    if result.bundle == HERE:
        return f"this bundle contains {which}"
    why = "" if only_corrects(result) else "no change is proposed: "
    return f"{result.bundle} ({why}it contains {which})"
