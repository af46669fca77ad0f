"""The answer of a tuning in sentences; every format says the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from ortune.printable import operand, visible
from ortune.providers import of_target, short
from ortune.records import (
    Adoption,
    BudgetReport,
    BundleInfo,
    Candidate,
    Comparison,
    Envelope,
    Figures,
    Finding,
    Guard,
    Plan,
    PlanStatus,
    PrecisionRow,
    SettingWorth,
    TradeRow,
    TuneResult,
    VerdictName,
)
from ortune.report import compare_outputs, finding_words, precision_words
from ortune.report import headline as heads
from ortune.report import sides as two_sides
from ortune.report.answer_commands import (
    change_line,
    lines,
    profile_line,
    told_line,
    with_budget,
    words_of,
)
from ortune.report.checks import GUARD_NAMES, checks, control_words, guard_state
from ortune.report.compare_words import VERIFIED, cases, spread
from ortune.report.document import (
    Annotation,
    Code,
    Column,
    Document,
    Line,
    Pairs,
    Table,
    Tone,
    stopped,
    table,
)
from ortune.report.numbers import change, duration, interval_name, memory, percent, size, span, three
from ortune.report.placement_words import placed, places

NAMED = 6  # plans in a list, at most
EXPLORED = 10
LONGEST_PLAN, LONGEST_LEADER = 70, 40
"""Characters of a plan that a headline names: one that is shipped, and one that is not. A longer one is counted."""
LEAST_LEFT_S = 1.0
"""Of a budget: less is not worth a word."""
MOST_UNSEEN = 0.1
"""The largest minimum detectable effect, as a share, with which what runs may be called the best."""
FATES: dict[PlanStatus, str] = {
    "winner": "winner",
    "default": "the default",
    "current": "runs today",
    "retired": "retired",
    "failed": "failed",
    "wrong-output": "wrong output",
    "pruned": "part did not pay",
    "not-tried": "not tried",
}


def headline(result: TuneResult) -> str:
    """The answer in at most two lines: the verdict, the figure with its interval, with what it was reached."""
    estimand, within = result.estimand, result.worth_ratio
    return heads.headline(verdict(result), *_said(result), estimand=estimand, within=within)


def verdict(result: TuneResult) -> VerdictName:
    """What the deciding comparison says; "inconclusive" where nothing decides, or what is faster is not proposed."""
    if nothing_tested(result):
        return "nothing-tested"
    claim = (result.refused.comparison if result.refused else None) if _kept(result) else deciding(result)
    if result.budget.exploratory or claim is None or claim.phase == "race":
        return "inconclusive"
    return "inconclusive" if _kept(result) and claim.verdict == "faster" else claim.verdict


def limits(result: TuneResult) -> list[str]:
    """What a reader of the headline must know besides."""
    if nothing_tested(result):
        return []
    wrong = [_wrong_default(result)] if result.wrong_default is not None else []
    if _kept(result) or result.budget.exploratory:
        return wrong
    return [*wrong, *([result.caution] if result.caution else []), *_final(result)]


def _said(result: TuneResult) -> list[str]:
    """The figure, and what it takes."""
    if nothing_tested(result):
        why = _untested_words(result)
        return [why, *_rerun(result, why), *_runs_now(result)]
    if result.budget.exploratory:
        return _exploratory(result)
    return _stays(result) if _kept(result) else _gain(result)


def _kept(result: TuneResult) -> bool:
    """Whether what runs stays."""
    return result.winner == (today(result) or result.default)


def stays_best(result: TuneResult) -> bool:
    """Whether what runs stays, and a gain that matters would have been seen."""
    return _kept(result) and not result.budget.exploratory and standing(result) == "best"


def _wrong_default(result: TuneResult) -> str:
    """That the default is wrong, and what is right in its place."""
    return f"the default's outputs are wrong, those of {result.default.describe()} are right"


def fewer_bits(result: TuneResult) -> PrecisionRow | None:
    """What is known of the winner's quantized model, where it runs one."""
    specs = result.winner.rewrites
    return next((r for r in result.precision if r.within_ratio != 0 and r.plan.rewrites[-1] in specs), None)


def lost_shapes(result: TuneResult) -> list[str]:
    """The shapes of a mix that the winner was shown to lose: a gain on the whole must not hide them."""
    return [
        f"SLOWER at {case.case} {change(case.ratio)} ({span(case.ratio_low, case.ratio_high)})"
        for case in result.cases
        if case.ratio_low > 1
    ]


def today(result: TuneResult) -> Plan | None:
    """What the user runs today, where that is anything but the untouched default."""
    return result.current if result.current != result.default else None


def deciding(result: TuneResult) -> Comparison | None:
    """The comparison that the headline rests on: against today's plan where there is one, else the default."""
    if today(result) is not None:
        return result.against_current
    return result.against_default


def times(value: float) -> str:
    """A factor: "1.11x", "17.3x"."""
    return f"{three(value)}x"


def factors(ratio_low: float | None, ratio_high: float | None) -> str:
    """An interval of ratios as speed-up factors: "1.09-1.13"; an open end is said in words."""
    if not ratio_low:
        return f"{three(1 / ratio_high)} or more" if ratio_high else "no bound"
    return (
        f"{three(1 / ratio_high)}-{three(1 / ratio_low)}" if ratio_high else f"up to {three(1 / ratio_low)}"
    )


def bounds(comparison: Comparison) -> str:
    """The interval of a comparison as speed-up factors."""
    return factors(comparison.ratio_low, comparison.ratio_high)


def _final(result: TuneResult) -> list[str]:
    """What a quantized winner rests on: with invented inputs it is not final."""
    row = fewer_bits(result)
    return [precision_words.rests_on(result.calibration, row)] if row and result.calibration else []


def gain_unit(ratio: float, estimand: str) -> str:
    """What a factor is a factor of: "faster in p50", "faster to start", "less peak memory"."""
    kind, name = two_sides.kind(estimand), two_sides.statistic(estimand)
    if kind in ("memory", "cpu"):
        return f"{'less' if ratio <= 1 else 'the'} {name}"
    text = "faster" if ratio <= 1 else "slower"
    return f"{text} to start" if kind == "cold" else f"{text} in {name}"


def gain_words(comparison: Comparison) -> str:
    """What got better and by how much: "1.11x faster in p50", "1.30x less peak memory"."""
    ratio = comparison.ratio
    return f"{times(max(ratio, 1 / ratio))} {gain_unit(ratio, comparison.estimand)}"


def blocks_words(comparison: Comparison) -> str:
    """What the claim rests on: "16 fresh blocks" confirm it; race data is called exploratory."""
    if comparison.phase == "race":
        return f"exploratory, {heads.count(comparison.n_blocks, 'race block')}"
    return heads.count(comparison.n_blocks, "fresh block")


def _gain(result: TuneResult) -> list[str]:
    """What the winner gains over what runs, and what it is."""
    claim = deciding(result)
    if claim is None:
        return [f"{result.winner.describe()} looked fastest, but nothing was confirmed", *_runs_now(result)]
    now = today(result) is not None
    base, arrow, new = both_values(result).partition(" -> ")
    both = f"{'today ' if now else ''}{base} -> {new}" if arrow else "against today" if now else ""
    said = ", ".join(filter(None, (heads.measured(claim, blocks_words(claim)), both)))
    with_ = f"with {_named(result)}" if result.winner != result.default else "with the untouched default"
    if claim.verdict != "faster":
        return [said, with_, _seen(result)]
    default = [] if result.winner == result.default or not now else [_default_takes(result)]
    difference = outputs(result)
    return [said, with_, *lost_shapes(result), *default, *([difference] if difference else [])]


def _runs_now(result: TuneResult, *, keep: bool = False) -> list[str]:
    """What runs today and what the untouched default would be, where the two differ; and that it stays."""
    if today(result) is None:
        return ["keep the default"] if keep else []
    of, figures = two_sides.statistic(result.estimand), result.current_figures
    value = f" ({of} {two_sides.value(figures, result.estimand)})" if figures is not None else ""
    return [f"{'keep ' if keep else ''}what runs today{value}", _default_takes(result)]


def _default_takes(result: TuneResult) -> str:
    return f"the default takes {two_sides.value(result.default_figures, result.estimand)}"


def _rerun(result: TuneResult, said: str) -> list[str]:
    """The budget that is enough, where it is known and not said yet."""
    enough_s = result.budget.enough_s
    return [f"rerun with --budget {enough_s:.0f}s"] if enough_s and "--budget" not in said else []


def both_values(result: TuneResult) -> str:
    """What is replaced and what replaces it ("11.0 ms -> 9.90 ms"); "" where the paired change is another one."""
    base = result.current_figures if today(result) is not None else result.default_figures
    comparison = deciding(result)
    return (
        two_sides.values(base, result.winner_figures or result.default_figures, comparison)
        if comparison
        else ""
    )


def interval_of(comparison: Comparison) -> str:
    """What its interval is called; of two claims, against the default and against today, it is one for both."""
    return interval_name(comparison.level)


def _named(result: TuneResult) -> str:
    """What the winner is: named where that is short, else counted."""
    plan = result.winner
    build = [result.runtime.build] if result.runtime else []
    said = plan.describe() if plan != Plan() or not build else ""
    if len(said) > LONGEST_PLAN:
        said = counted(len(plan.rewrites), len(plan.settings))
    return " and ".join([*build, *([said] if said else [])])


def counted(rewrites: int, settings: int) -> str:
    """How many there are of each: "2 rewrites and 1 setting"."""
    kinds = ((rewrites, "rewrite"), (settings, "setting"))
    return " and ".join(f"{n} {name}{'' if n == 1 else 's'}" for n, name in kinds if n)


def adopting(adoption: Adoption) -> str:
    """What it takes to run with another build: the command, its size, its licence, and what it replaces."""
    licenses = (
        ", ".join(dict.fromkeys(license for license in adoption.licenses if license)) or "licence unknown"
    )
    place = (
        f", in an environment without {adoption.instead_of}, whose place it takes"
        if adoption.instead_of
        else ""
    )
    cost = f"{size(adoption.size_bytes)} on disk; {licenses}"
    return f"pip install {' '.join(adoption.requirements)}{place} ({cost})"


def elsewhere(result: TuneResult) -> list[tuple[str, str]]:
    """Each other execution provider that was raced and did not win: how far its best plan came, and where it loses."""
    own = result.winner.provider_names
    raced: dict[str, Candidate] = {}
    for candidate in result.candidates:
        name = candidate.plan.provider_names[0]
        if name in own or name == result.default.provider_names[0] or candidate.ratio is None:
            continue
        best = raced.setdefault(name, candidate)
        if candidate.ratio < (best.ratio or candidate.ratio):
            raced[name] = candidate
    rows = []
    for name, best in raced.items():
        assert best.ratio is not None
        text = f"{change(best.ratio)} at best in {best.n_blocks} block{'' if best.n_blocks == 1 else 's'} (exploratory)"
        rows.append((short(name), f"not taken: {text}{f'; {best.why}' if best.why else ''}"))
    return rows


def _exploratory(result: TuneResult) -> list[str]:
    """What looks fastest where nothing could be confirmed, why not, and the budget that confirms it."""
    measured = [c for c in tried(result.candidates) if c.ratio is not None]
    best = min(measured, key=lambda c: c.ratio or 1.0, default=None)
    n = len(tried(result.candidates))
    which = "the one configuration tried" if n == 1 else f"{n} configurations tried"
    if best is not None and best.ratio is not None and best.ratio < 1 - result.worth_ratio:
        gain = f"{times(1 / best.ratio)} {gain_unit(best.ratio, result.estimand)}"
        blocks = heads.count(best.n_blocks, "block")
        text = f"{best.plan.describe()} looks {gain} (exploratory: {blocks}, unconfirmed)"
    else:
        text = f"nothing looks faster than the default among the {which} (exploratory, unconfirmed)"
    short = f"{result.budget.budget_s:.0f} s are too short to"
    failed = any(not control.ok for control in result.controls)
    why = f"{short} repeat the failed checks" if failed else f"{short} confirm one change"
    return [text, why, *_rerun(result, "")]


def _stays(result: TuneResult) -> list[str]:
    """That nothing better was confirmed, who came nearest, and what could have been seen."""
    refused, n = result.refused, _tried_words(result)
    rest = [*_runs_now(result, keep=stays_best(result)), _seen(result)]
    if refused is None or result.fell:
        fell = f"the leader failed: {result.fell}" if result.fell else ""
        return [f"no gain confirmed among {n}", fell, *rest]
    if refused.comparison.verdict == "faster":
        return [
            f"no change proposed, after {n}",
            _not_proposed(result, refused.comparison),
            *_runs_now(result),
        ]
    said = heads.measured(refused.comparison, blocks_words(refused.comparison))
    return [f"{said} with {_leader(result)}, the best of {n}", *rest]


def _not_proposed(result: TuneResult, claim: Comparison) -> str:
    """Why what is faster is not shipped."""
    gain = f"{_leader(result)} is {gain_words(claim)} ({interval_of(claim)} {bounds(claim)})"
    if claim.ratio > 1 - result.worth_ratio:
        return f"{gain}, less than the {percent(result.worth_ratio)} worth a change"
    failed = [g for g in claim.guards if g.failed]
    allow = " ".join(f"--allow {g.figure}" for g in failed)
    worse = " and ".join(f"{GUARD_NAMES[g.figure]} {change(g.ratio or 1)}" for g in failed)
    return f"{gain}, but {worse}, more than allowed ({allow})"


def nothing_tested(result: TuneResult) -> bool:
    """Whether no other configuration ran: that is no answer, and nothing is the best of none."""
    compared = (result.against_default, result.against_current, result.refused)
    return (
        not tried(result.candidates)
        and not result.fell
        and all(comparison is None for comparison in compared)
    )


def _untested_words(result: TuneResult) -> str:
    """Why nothing was tested."""
    why = "no other configuration is possible or allowed here"
    if not result.budget.n_trials and result.budget.promise:
        why = result.budget.promise
    elif _left_out(result.candidates) or not result.budget.n_trials:
        why = "the budget ended before any other configuration ran"
    elif not_made := [c.why for c in result.candidates if c.fate == "not-tried" and c.why]:
        why = not_made[0]
    return why


Standing = Literal["nothing-tested", "no-change", "not-shown", "best"]


def standing(result: TuneResult) -> Standing:
    """How sure it is that nothing is better than what runs, where that stays.

    The best, only where no plan is left that may be better and a gain that matters would have been seen: where it is
    not known which difference that is, or only one of half the time, none was ruled out.
    """
    verdict = result.refused.comparison.verdict if result.refused else None
    if nothing_tested(result):
        return "nothing-tested"
    if verdict == "faster":
        return "no-change"
    least = _least_seen(result)
    ran = any(c.n_blocks for c in tried(result.candidates))
    missed = least is None or least > MOST_UNSEEN or not ran
    return "not-shown" if verdict == "inconclusive" or result.fell or missed else "best"


def _left_out(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Plans that were proposed and for which there was no time."""
    return [c for c in candidates if c.fate == "not-tried" and "budget" in c.why]


def _leader(result: TuneResult) -> str:
    """What led the race and is not shipped."""
    name = result.refused.plan.describe() if result.refused else ""
    return name if name and len(name) <= LONGEST_LEADER else "the leader"


def _tried_words(result: TuneResult) -> str:
    """How many configurations ran, and under which conditions: "7 configurations on an idle machine"."""
    n = len(tried(result.candidates))
    which = ["the one configuration tried" if n == 1 else f"{n} configurations"]
    if n and not any(c.n_blocks for c in tried(result.candidates)):
        which = [
            "the one configuration tried, which failed" if n == 1 else f"{n} configurations, which all failed"
        ]
    which += [f"for these {len(result.cases)} shapes"] if len(result.cases) > 1 else []
    conditions = [result.conditions] if result.conditions and result.refused is None else []
    return " ".join([*which, *conditions])


def tried(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The plans that ran at least once, the default and today's plan left out."""
    return [c for c in candidates if c.fate not in ("not-tried", "default", "current")]


def _seen(result: TuneResult) -> str:
    """The smallest effect that could have been seen; never silent about it."""
    return _detectable(result) or "the minimum detectable effect is not known"


def _detectable(result: TuneResult) -> str:
    """The same; "" where it is not known."""
    share = _least_seen(result)
    if share is not None:
        return f"minimum detectable effect {percent(share)}"
    for control in result.controls:
        if control.name == "spike-in" and control.detected and control.expected_ratio:
            return f"an artificial {change(control.expected_ratio)} slowdown was detected"
    return ""


def _least_seen(result: TuneResult) -> float | None:
    """The minimum detectable effect, as a share."""
    comparison = result.refused.comparison if result.refused else deciding(result)
    return comparison.smallest_effect_ratio if comparison else result.smallest_effect_ratio


def guard(item: Guard) -> str:
    """One guard by its interval: "p95 -3.1 % (-5.0 % to -1.2 %) no worse"."""
    name, state = GUARD_NAMES[item.figure], guard_state(item)
    if item.ratio is None or state == "not known":
        return f"{name} not known"
    interval = f" ({span(item.ratio_low, item.ratio_high)})" if item.ratio_low is not None else ""
    return f"{name} {change(item.ratio)}{interval} {state}"


def outputs(result: TuneResult) -> str:
    """How equal the winner's outputs are to the default's, or ""."""
    difference = result.outputs
    if difference is None:
        return ""
    if not difference.ok:
        return f"outputs differ: {difference.what}"
    if row := fewer_bits(result):
        return precision_words.error(row.outputs or difference)
    return f"outputs {compare_outputs.alike(difference)}"


def settings_summary(settings: Sequence[SettingWorth]) -> str:
    """How many rewrites and settings the winner has and how many were shown to pay, or ""."""
    kept = [s for s in settings if s.kept]
    if not kept:
        return ""
    paying, n_rewrites = sum(pays(s) for s in kept), sum(not s.value for s in kept)
    what = counted(n_rewrites, len(kept) - n_rewrites)
    if len(kept) == 1:
        return what + (", shown to pay" if paying else "")
    if not paying and all(s.without_ratio is None for s in kept):
        return f"{what}, not measured one by one"
    shown = {0: "none shown to pay alone", len(kept): "each shown to pay"}.get(
        paying, f"{paying} of them shown to pay"
    )
    return f"{what}, {shown}"


def pays(item: SettingWorth) -> bool:
    """Whether leaving the setting out was confirmed slower."""
    return item.shown


def setting(item: SettingWorth) -> str:
    """A setting or rewrite as it is written in a plan."""
    return f"{item.name}={item.value}" if item.value else item.name


def worth(item: SettingWorth) -> str:
    """What leaving a setting out costs: "+4.2 % without it (+2.0 % to +6.1 %)"."""
    if item.without_ratio is None:
        return "not measured on its own"
    interval = f" ({span(item.without_low, item.without_high)})" if item.without_low is not None else ""
    return f"{change(item.without_ratio)} without it{interval}"


def details(result: TuneResult) -> list[tuple[str, str]]:
    """What supports the headline, each with its name: settings, guards, noise, findings, notes, failures."""
    kept = [s for s in result.settings if s.kept]
    rows = [("setting" if s.value else "rewrite", f"{setting(s)}: {worth(s)}{_level(s)}") for s in kept]
    rows.append(("winner", settings_summary(result.settings)))
    rows.append(("statistic", result.estimand))
    if result.runtime is not None:
        runtimes = f"{result.runtime.build}; the default ran with {result.side.runtime.build}"
        rows.append(("runtime", runtimes))
    rows += [("placement", text) for text in placed(result.placement)]
    if result.adoption is not None:
        rows.append(("adopting it", adopting(result.adoption)))
    rows += elsewhere(result)
    compared = deciding(result)
    if compared is not None:
        rows.append(("guards", "; ".join(guard(g) for g in compared.guards)))
    if result.alone is not None:
        rows.append(("alone", alone(result.alone)))
    rows.append(("noise", noise(result)))
    if result.headroom is not None:
        rows.append(("headroom", result.headroom.sentence))
    rows += finding_words.rows(result.findings)
    rows += [("note", text) for text in result.notes]
    if result.hardware_bound:
        rows.append(
            ("note", "the winner's model is bound to this CPU; the bundle also contains the portable one")
        )
    if result.fallback is not None:
        rows.append(("fallback", f"{result.fallback.describe()}, on a device that cannot run the winner"))
    for status in ("failed", "wrong-output"):
        rows += [
            (FATES[status], f"{c.plan.describe()}: {c.why}") for c in result.candidates if c.fate == status
        ]
    if left := _left_out(result.candidates):
        names = [c.plan.describe() for c in left]
        more = [f"and {len(names) - NAMED} more"] if len(names) > NAMED else []
        rows.append(("not tested", "; ".join([*names[:NAMED], *more])))
    if result.not_tried:
        rows.append(("not tried", ", ".join(result.not_tried)))
    return [(name, text) for name, text in rows if text]


def _level(item: SettingWorth) -> str:
    if not item.value and item.read_back == "effect":
        return "; stored in the model file"
    return f"; {VERIFIED[item.read_back]}"


def alone(comparison: Comparison) -> str:
    """The last check: what the winner does where no other trial is alive."""
    interval = span(comparison.ratio_low, comparison.ratio_high)
    return f"{change(comparison.ratio)} ({interval}) in {comparison.n_blocks} blocks of one process at a time"


def noise(result: TuneResult) -> str:
    """What the controls said, and how many blocks were dropped."""
    parts = control_words(result.controls)
    dropped = sum(bool(p.dropped) for p in result.points)
    if dropped:
        parts.append("one block dropped" if dropped == 1 else f"{dropped} blocks dropped")
    return "; ".join(parts)


def figures_table(result: TuneResult) -> Table:
    """A row a figure of the default, of today's plan where there is one, and of the winner or of who came nearest."""
    columns = [("default", result.default_figures)]
    now = today(result)
    if now is not None and result.current_figures:
        columns.append(("today", result.current_figures))
    comparison, base = None, base_name(result)
    if result.winner_figures and result.winner not in (result.default, now):
        columns.append(("winner", result.winner_figures))
        comparison = deciding(result)
    elif now is not None and result.winner == result.default:
        # The default is what to change to: it is held against today.
        columns.reverse()
        comparison = result.against_current
    elif result.refused is not None and result.refused.figures is not None:
        columns.append(("leader", result.refused.figures))
        comparison = result.refused.comparison
    return two_sides.sides_table(
        columns, result.estimand, comparison, base if base in dict(columns) else "default"
    )


def sides(result: TuneResult) -> list[tuple[str, ...]]:
    """The same as rows of text, the heads first, with what else describes each side."""
    shown = figures_table(result)
    heads = tuple(column.head for column in shown.columns)
    figures: list[Figures] = []
    for name in heads[1:]:
        side = {"default": result.default_figures, "today": result.current_figures}.get(name)
        side = result.winner_figures if name == "winner" else side
        side = result.refused.figures if name == "leader" and result.refused else side
        figures += [side] if side else []
    rows = [heads, *(tuple(cell.text for cell in row) for row in shown.rows)]
    blank = [""] * (len(heads) - 1 - len(figures))
    rows.append(("first run", *(duration(f.first_run_ns) for f in figures), *blank))
    if all(f.spread_ratio for f in figures):
        rows.append(("p90 / p10 in a process", *(spread(f) for f in figures), *blank))
    return rows


def explored(result: TuneResult) -> Table:
    """The configurations of a search that could confirm none, the fastest first; no rows of another search."""
    ran = [c for c in tried(result.candidates) if c.ratio is not None]
    if not result.budget.exploratory:
        ran = []
    ran.sort(key=lambda c: c.ratio or 1.0)
    columns = [Column("configuration", "text"), Column("speed-up"), Column("blocks"), Column("", "text")]
    rows = [
        (c.plan.describe(), times(1 / (c.ratio or 1.0)), str(c.n_blocks), "exploratory, unconfirmed")
        for c in ran[:EXPLORED]
    ]
    more = len(ran) - len(rows)
    notes = [f"{more} more: ortune report -v lists them"] if more > 0 else []
    if ran and (n_unmeasured := len(tried(result.candidates)) - len(ran)):
        notes.append(f"{n_unmeasured} more failed or had wrong outputs (-v lists them)")
    return table(columns, rows, notes=notes)


def trade_cells(row: TradeRow) -> tuple[str, ...]:
    """Title, plan, latency, CPU time per run, peak memory, standing."""
    standing = "confirmed" if row.confirmed else "kept" if row.kept else "exploratory"
    figures = duration(row.latency_ns), duration(row.cpu_per_run_ns), memory(row.peak_bytes)
    return row.title, row.plan.describe(), *figures, standing


TRADE = (
    *(Column(head, "text") for head in ("", "plan")),
    *(Column(head) for head in ("p50", "CPU time per run", "peak memory")),
    Column("", "text"),
)


def bundle_headline(info: BundleInfo) -> str:
    """What a bundle says of itself."""
    proof = info.proof
    if proof is None:
        return f"{info.plan.describe()}; the bundle contains no proof"
    said = heads.measured(proof, blocks_words(proof))
    return heads.headline(proof.verdict, said, f"with {info.plan.describe()}", estimand=proof.estimand)


def document(envelope: Envelope[TuneResult]) -> Document:
    """The tuning: the answer first, with what to paste; what supports it, where that is asked for."""
    result = envelope.result
    said = result.headline or headline(result)
    heads, *rows = sides(result)
    extra = [row for row in rows if row[0] in ("first run", "p90 / p10 in a process")]
    columns = [Column("", "label"), *(Column(head) for head in heads[1:])]
    return Document(
        title=f"ortune tune: {result.side.label}",
        blocks=[
            *stopped(envelope),
            Line(said, _tone(result)),
            *(Line(text, "look") for text in limits(result)),
            figures_table(result),
            explored(result),
            precision_words.side_by_side(result.precision),
            places(result.places),
            cases(result.cases, base_name(result), "winner", "change"),
            Pairs(rows=[("why", text) for text in causes(result)]),
            *_checks(result),
            Line(result.left_aside),
            Line(untested(result), "faint"),
            Pairs(rows=[("bundle", result.bundle)] if result.bundle else []),
            Code(title="to paste", lines=code_lines(result.code) if replaces(result) else ()),
            Code(title="next", lines=next_commands(envelope), commands=True),
        ],
        support=[
            Pairs(rows=details(result)),
            table(columns, extra),
            table(TRADE, [trade_cells(row) for row in result.trade]),
            Pairs(rows=_places(result)),
        ],
        annotations=[
            Annotation(level="notice", title=f"ortune: {result.side.label}", lines=[said, *limits(result)]),
            *finding_words.to_annotate(result.findings),
        ],
    )


def causes(result: TuneResult) -> list[str]:
    """What stands out in the file and a rewrite mends: the rewrite, and what it alone was measured to win."""
    sentences = []
    for finding in _mended(result):
        comparison, plan = finding.verified, finding.plan or Plan()
        is_shipped = _shipped(result, plan)
        if comparison is None:
            measured = "not measured by itself"
            prize = f"part of the winner, {measured}" if is_shipped else f"{measured} and not proposed"
        else:
            has_interval = comparison.ratio_high is not None and comparison.n_blocks > 1
            interval = f" ({span(comparison.ratio_low, comparison.ratio_high)})" if has_interval else ""
            of = "the race" if comparison.n_blocks > 1 else "one block of the race"
            where = "part of the winner" if is_shipped else "not proposed"
            prize = f"alone {change(comparison.ratio)}{interval} in {of}; {where}"
        sentences.append(f"{finding.what} -> {plan.describe()}: {prize}")
    return sentences


def _mended(result: TuneResult) -> list[Finding]:
    return [f for f in result.findings if f.plan is not None and f.plan.rewrites]


def _shipped(result: TuneResult, plan: Plan) -> bool:
    return {s.name for s in plan.rewrites} <= {s.name for s in result.winner.rewrites}


def _checks(result: TuneResult) -> list[Line]:
    """What limits the claim; nothing where nothing was compared."""
    comparison = deciding(result) or (result.refused.comparison if result.refused else None)
    more = [outputs(result)] if result.outputs is not None and not result.outputs.ok else []
    unread = [setting(s) for s in result.settings if s.kept and s.value and s.read_back == "none"]
    more += [f"not verified: {', '.join(unread)}"] if unread else []
    return checks(result.controls, comparison, result.findings, *more)


NO_TIME = "was not tested: no time left"
"""What is said of a target for which no time was left."""


def untested(result: TuneResult) -> str:
    """How much was not tested, and where it is listed."""
    named = [text for text in result.not_tried if NO_TIME in text]
    counts = (
        (_left_out(result.candidates), "for lack of time"),
        ([text for text in result.not_tried if text not in named], "not possible or allowed here"),
    )
    parts = [f"{len(plans)} {why}" for plans, why in counts if plans]
    return "; ".join([*([f"not tested: {', '.join(parts)} (-v lists them)"] if parts else []), *named])


def late(result: TuneResult, names: Sequence[str]) -> tuple[str, ...]:
    """Of the targets that were asked for by name, those for which no time was left, each with a budget that has it."""
    if not result.budget.enough_s:
        return ()
    ran = {c.plan.provider_names[0] for c in tried(result.candidates)}
    waiting = {c.plan.provider_names[0] for c in _left_out(result.candidates)}
    # Before the first proposal all are waiting; after it, one that is not among them was refused with a reason.
    proposed = bool(waiting or ran or result.not_tried)
    return tuple(
        f"{name} {NO_TIME} (--budget {result.budget.enough_s:.0f}s is enough)"
        for name in names
        if (provider := of_target(name).name) not in ran and (provider in waiting or not proposed)
    )


def replaces(result: TuneResult) -> bool:
    """Whether what is to be pasted is another session than the one that runs."""
    return result.winner != (today(result) or result.default)


def next_commands(envelope: Envelope[TuneResult]) -> list[str]:
    """What proves the winner again, or finds more; what supports the answer."""
    result = envelope.result
    more: list[str] = []
    if result.budget.enough_s:
        more = with_budget(result.reproduce, result.budget.enough_s)
    prove = ["ortune", "compare", operand(result.bundle)] if result.bundle and replaces(result) else []
    ran = msgspec.structs.replace(result.side, plan=result.default)  # a browser's is no profile of a process
    why = [] if replaces(result) else profile_line(ran, envelope.workload)
    unproven = [f.plan for f in _mended(result) if f.plan is not None and not _shipped(result, f.plan)]
    measure = [change_line(result.reproduce, result.default, plan) for plan in unproven[:1]]
    fewer = []
    settled = not replaces(result) and not nothing_tested(result) and not result.budget.exploratory
    if settled and not result.allowed:
        again = more or words_of(result.reproduce)
        fewer = [*again, "--allow", "numerics"] if again else []
    return lines(*measure, more, prove, fewer, why, told_line(result.session, envelope.store))


def _tone(result: TuneResult) -> Tone:
    comparison = deciding(result)
    if comparison is not None and comparison.verdict == "faster" and comparison.phase == "confirm":
        invented = result.calibration is not None and not result.calibration.source and fewer_bits(result)
        return "unsure" if invented or any(g.failed for g in comparison.guards) else "good"
    return "strong" if standing(result) in ("best", "no-change") else "unsure"


def base_name(result: TuneResult) -> str:
    """What the headline compares with."""
    return "today" if today(result) is not None else "default"


def code_lines(code: str) -> list[str]:
    """Code to paste, line by line; what is not printable is written out."""
    return [visible(line) for line in code.strip("\n").splitlines()]


def _places(result: TuneResult) -> list[tuple[str, str]]:
    """Where the deliverables lie, and how to get them again."""
    named = [
        ("bundle", result.bundle),
        ("report", result.report),
        ("spent", spent(result)),
        *(("again", line) for line in result.reproduce.splitlines()),
    ]
    return [(name, text) for name, text in named if text]


def spent(result: TuneResult) -> str:
    """What the run took: trials, and seconds by phase."""
    b = result.budget
    phases = (
        ("start and pilot", b.before_s),
        ("calibration", b.calibration_s),
        ("race", b.race_s),
        ("confirmation", b.confirm_s),
    )
    parts = [f"{name} {seconds:.0f} s" for name, seconds in phases if seconds]
    if b.n_trials:
        parts.insert(0, f"{b.n_trials} trials")
        parts += _unspent(b)
    return ", ".join(parts)


def _unspent(b: BudgetReport) -> list[str]:
    """What is left of a budget, with the arithmetic."""
    if b.left_s < LEAST_LEFT_S:
        return []
    if not b.next_s:
        return [f"{b.left_s:.0f} s left (every configuration was tested)"]
    when = "" if b.next_s > b.left_s else " after the confirmation"
    return [f"{b.left_s:.0f} s left{when} (one more configuration takes {b.next_s:.0f} s)"]
