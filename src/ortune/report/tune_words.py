"""The answer of a tuning in sentences; every format says the same."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.records import (
    Adoption,
    BundleInfo,
    Candidate,
    Comparison,
    Envelope,
    Guard,
    Plan,
    PlanStatus,
    PrecisionRow,
    Runtime,
    SettingWorth,
    TradeRow,
    TuneResult,
)
from ortune.report import finding_words, precision_words
from ortune.report.compare_words import (
    VERIFIED,
    cases,
    control_words,
    estimand_kind,
    figure_value,
    guard_state,
    objective_row,
    span,
    spread,
    statistic,
)
from ortune.report.document import (
    Annotation,
    Code,
    Column,
    Document,
    Line,
    Pairs,
    Tone,
    stopped,
    table,
)
from ortune.report.escape import visible
from ortune.report.numbers import change, difference, duration, megabytes, memory, percent, three
from ortune.report.placement_words import placed

NAMED = 6  # plans in a list, at most
GUARD_NAMES = {"mean": "mean", "p95": "p95", "memory": "memory", "cpu": "CPU time"}
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
    """The answer in one sentence: how much faster, how sure, at what price; or that there is nothing to gain."""
    if today(result) is not None:
        parts = _against_today(result)
    elif result.winner == Plan():
        return "; ".join([*_default_best(result), *finding_words.caveats(result.findings)])
    else:
        parts = [*([result.caution] if result.caution else []), _gain(result)]
    return "; ".join(
        [
            *parts,
            *lost_shapes(result),
            *support(result),
            *_final(result),
            *finding_words.caveats(result.findings),
        ]
    )


def fewer_bits(result: TuneResult) -> PrecisionRow | None:
    """What is known of the winner's quantised model, where it runs one."""
    specs = result.winner.rewrites
    return next((r for r in result.precision if r.within_ratio != 0 and r.plan.rewrites[-1] in specs), None)


def lost_shapes(result: TuneResult) -> list[str]:
    """The shapes of a mix that the winner was shown to lose: a gain on the whole must not hide them."""
    return [
        f"SLOWER at {case.case}: {change(case.ratio)} ({span(case.ratio_low, case.ratio_high)})"
        for case in result.cases
        if case.ratio_low > 1
    ]


def today(result: TuneResult) -> Plan | None:
    """What the user runs today, where that is anything but the untouched default."""
    return result.current if result.current != Plan() else None


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
    """What a quantised winner rests on: with invented inputs it is not final."""
    row = fewer_bits(result)
    return [precision_words.rests_on(result.calibration, row)] if row and result.calibration else []


def gain_unit(ratio: float, estimand: str) -> str:
    """What a factor is a factor of: "faster", "faster to start", "less peak memory"."""
    kind, name = estimand_kind(estimand), estimand.partition(" (")[0]
    if kind in ("memory", "cpu"):
        return f"{'less' if ratio <= 1 else 'the'} {name}"
    text = "faster" if ratio <= 1 else "slower"
    return {"latency": text, "cold": f"{text} to start"}.get(kind, f"{text} in {name}")


def gain_words(comparison: Comparison) -> str:
    """What got better and by how much: "1.11x faster", "1.20x faster to start", "1.30x less peak memory"."""
    ratio = comparison.ratio
    return f"{times(max(ratio, 1 / ratio))} {gain_unit(ratio, comparison.estimand)}"


def blocks_words(comparison: Comparison) -> str:
    """What the claim rests on: "confirmed on 16 fresh blocks"; race data never calls itself confirmed."""
    if comparison.phase == "race":
        return f"exploratory, {comparison.n_blocks} race blocks"
    if comparison.verdict == "faster":
        return f"confirmed on {comparison.n_blocks} fresh blocks"
    return f"on {comparison.n_blocks} fresh blocks"


def _gain(result: TuneResult) -> str:
    found = result.against_default
    if found is None:
        return f"{result.winner.describe()} led the race, and nothing was confirmed"
    if found.verdict != "faster":
        interval = span(found.ratio_low, found.ratio_high)
        return f"no gain shown by {result.winner.describe()} ({interval}), {blocks_words(found)}"
    where = f" with {_build(result.runtime)}" if result.runtime else ""
    return f"{gain_words(found)} ({bounds(found)}){where}, {blocks_words(found)}"


def _build(runtime: Runtime) -> str:
    """A build of ONNX Runtime: "onnxruntime-openvino 1.24.1"."""
    return f"{runtime.package or 'onnxruntime'} {runtime.ort_version}"


def adopting(adoption: Adoption) -> str:
    """What it takes to run with another build: the command, its size, its licence, and what it replaces."""
    licenses = ", ".join(dict.fromkeys(each for each in adoption.licenses if each)) or "licence not said"
    return (
        f"pip install {' '.join(adoption.requirements)}, in an environment without {adoption.instead_of}, whose place "
        f"it takes ({megabytes(adoption.size_bytes)} on disk; {licenses})"
    )


def _against_today(result: TuneResult) -> list[str]:
    """Today -> winner, then what the untouched default would be."""
    estimand, found = result.estimand, result.against_current
    now = figure_value(result.current_figures, estimand) if result.current_figures else "what runs today"
    new = figure_value(result.winner_figures or result.default_figures, estimand)
    default = f"the untouched default would be {figure_value(result.default_figures, estimand)}"
    if result.winner == result.current:
        found_nothing = _nothing_better(result, "already the best of") if tried(result.candidates) else "kept"
        return [f"{now} today: {found_nothing}", *_refused(result), default, _seen(result)]
    if found is None:
        return [f"{now} today; the winner was not compared with it", default]
    if found.verdict != "faster":
        interval = span(found.ratio_low, found.ratio_high)
        text = f"{now} today, {new} with {result.winner.describe()}: no gain shown ({interval})"
        return [f"{text}, {blocks_words(found)}", _seen(result), default]
    text = f"{now} today -> {new} ({times(1 / found.ratio)}, {bounds(found)}), {blocks_words(found)}"
    if result.winner == Plan():
        return [text, "the untouched default is the best"]
    return [text, default]


def _default_best(result: TuneResult) -> list[str]:
    parts = [_nothing_better(result, "the default is already the best of")]
    if not tried(result.candidates):
        parts = ["no improvement found: no other setting was tried"]
        parts += [result.budget.promise] if not result.budget.n_trials else []
    parts += [*_refused(result), _seen(result)]
    if left := _left_out(result.candidates):
        parts.append(f"{len(left)} more not tested within the budget")
    if result.not_tried:
        parts.append(f"not tried: {', '.join(result.not_tried)}")
    return parts


def _nothing_better(result: TuneResult, best: str) -> str:
    """Already the best, only where no plan is left that may be better; else that nothing better was proven."""
    found = result.refused.comparison.verdict if result.refused else None
    if found == "faster":
        return f"no change proposed, after {_tried_words(result)}"
    if found == "inconclusive" or result.fell:
        return f"no improvement found among {_tried_words(result)}"
    return f"{best} {_tried_words(result)}"


def _left_out(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Plans that were proposed and for which there was no time."""
    return [c for c in candidates if c.fate == "not-tried" and "budget" in c.why]


def _refused(result: TuneResult) -> list[str]:
    """What the fresh blocks said of the race's leader, where it is not shipped."""
    if result.fell:
        return [f"the race's leader fell: {result.fell}"]
    if result.refused is None:
        return []
    found = result.refused.comparison
    interval = span(found.ratio_low, found.ratio_high)
    if found.verdict != "faster":
        return [f"the race's leader did not confirm ({interval}, {found.n_blocks} fresh blocks)"]
    if found.ratio > 1 - result.worth_ratio:
        least = percent(result.worth_ratio)
        return [
            f"the race's leader is {gain_words(found)} ({bounds(found)}), less than the {least} worth a change"
        ]
    failed = [g for g in found.guards if g.failed]
    allow = " ".join(f"--allow {g.figure}" for g in failed)
    worse = ", ".join(guard(g) for g in failed)
    return [f"one was {gain_words(found)} ({bounds(found)}), but {worse} ({allow})"]


def _tried_words(result: TuneResult) -> str:
    n = len(tried(result.candidates))
    shapes = f"these {len(result.cases)} shapes" if len(result.cases) > 1 else "this shape"
    settings = "the one setting tried" if n == 1 else f"the {n} settings tried"
    return " ".join([settings, "for", shapes, *([result.conditions] if result.conditions else [])])


def tried(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The plans that ran at least once, the default and today's plan left out."""
    return [c for c in candidates if c.fate not in ("not-tried", "default", "current")]


def _seen(result: TuneResult) -> str:
    """The smallest effect that could have been seen; never silent about it."""
    found = result.refused.comparison if result.refused else deciding(result)
    share = found.smallest_effect_ratio if found else result.smallest_effect_ratio
    if share is not None:
        where = "" if deciding(result) else f" in the {'leader' if found else 'plan raced longest'}"
        return f"minimum detectable effect {percent(share)}{where}"
    for control in result.controls:
        if control.name == "spike-in" and control.detected and control.expected_ratio:
            return f"the positive control, a wait of {change(control.expected_ratio)}, was detected"
    return "the minimum detectable effect is not known"


def support(result: TuneResult) -> list[str]:
    """What supports the claim: guards, outputs, settings; a part with nothing to say is left out."""
    found = deciding(result)
    parts = guard_summary(found.guards) if found else []
    return [p for p in (*parts, outputs(result), settings_summary(result.settings)) if p]


def guard_summary(guards: Sequence[Guard]) -> list[str]:
    """Guards in few words: "p95 and memory no worse", then each that is worse, undecided or not known."""
    fine = [GUARD_NAMES[g.figure] for g in guards if guard_state(g) == "no worse"]
    parts = [f"{_and(fine)} no worse"] if fine else []
    return parts + [guard(g) for g in guards if guard_state(g) != "no worse"]


def guard(item: Guard) -> str:
    """One guard by its interval: "p95 -3.1 % (-5.0 % to -1.2 %) no worse"."""
    name, state = GUARD_NAMES[item.figure], guard_state(item)
    if item.ratio is None or state == "not known":
        return f"{name} not known"
    interval = f" ({span(item.ratio_low, item.ratio_high)})" if item.ratio_low is not None else ""
    return f"{name} {change(item.ratio)}{interval} {state}"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def outputs(result: TuneResult) -> str:
    """How equal the winner's outputs are to the default's, or ""."""
    found = result.outputs
    if found is None:
        return ""
    if not found.ok:
        return f"outputs differ: {found.what}"
    if row := fewer_bits(result):
        return precision_words.error(row.outputs or found)
    if found.compared_as == "moments":
        return "outputs alike by shape, finiteness and moments"
    how = " (as sets)" if found.compared_as == "sets" else ""
    return f"outputs {difference(found.relative_l2).replace('e-0', 'e-')}{how}"


def settings_summary(settings: Sequence[SettingWorth]) -> str:
    """How many settings the winner has and how many were shown to pay, or ""."""
    kept = [s for s in settings if s.kept]
    if not kept:
        return ""
    paying = sum(pays(s) for s in kept)
    if len(kept) == 1:
        return "1 setting" + (", shown to pay" if paying else "")
    shown = {0: "none shown to pay alone", len(kept): "each shown to pay"}.get(
        paying, f"{paying} of them shown to pay"
    )
    return f"{len(kept)} settings, {shown}"


def pays(item: SettingWorth) -> bool:
    """Whether leaving the setting out was shown to be slower."""
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
    found = [("setting", f"{setting(s)}: {worth(s)}{_level(s)}") for s in result.settings if s.kept]
    found.append(("statistic", statistic(result.estimand)))
    if result.runtime is not None:
        runtimes = f"{_build(result.runtime)}; the default ran with {_build(result.side.runtime)}"
        found.append(("runtime", runtimes))
    found += [("placement", text) for text in placed(result.placement)]
    if result.adoption is not None:
        found.append(("adopting it", adopting(result.adoption)))
    compared = deciding(result)
    if compared is not None:
        found.append(("guards", "; ".join(guard(g) for g in compared.guards)))
    if result.alone is not None:
        found.append(("alone", alone(result.alone)))
    found.append(("noise", noise(result)))
    if result.headroom is not None:
        found.append(("headroom", result.headroom.sentence))
    found += finding_words.rows(result.findings)
    found += [("note", text) for text in result.notes]
    if result.hardware_bound:
        found.append(
            ("note", "the winner's model is bound to this CPU; the bundle keeps the plain one beside it")
        )
    for fate in ("failed", "wrong-output"):
        found += [(FATES[fate], f"{c.plan.describe()}: {c.why}") for c in result.candidates if c.fate == fate]
    if left := _left_out(result.candidates):
        names = [c.plan.describe() for c in left]
        more = [f"and {len(names) - NAMED} more"] if len(names) > NAMED else []
        found.append(("not tested", "; ".join([*names[:NAMED], *more])))
    if result.not_tried and result.winner != Plan():
        found.append(("not tried", ", ".join(result.not_tried)))
    return [(name, text) for name, text in found if text]


def _level(item: SettingWorth) -> str:
    if not item.value and item.read_back == "effect":
        return "; it is in the model's file"
    return f"; {VERIFIED[item.read_back]}"


def alone(found: Comparison) -> str:
    """The last check: what the winner does where no other trial is alive."""
    interval = span(found.ratio_low, found.ratio_high)
    return f"{change(found.ratio)} ({interval}) in {found.n_blocks} blocks of one process at a time"


def noise(result: TuneResult) -> str:
    """What the controls said, and how many blocks were dropped."""
    parts = control_words(result.controls)
    dropped = sum(bool(p.dropped) for p in result.points)
    if dropped:
        parts.append("one block dropped" if dropped == 1 else f"{dropped} blocks dropped")
    return "; ".join(parts)


def sides(result: TuneResult) -> list[tuple[str, ...]]:
    """Rows of a table: name, default, today (where there is one), winner; the first row holds the heads."""
    columns = [("default", result.default_figures)]
    if today(result) is not None and result.current_figures:
        columns.append(("today", result.current_figures))
    if result.winner_figures and result.winner != Plan():
        columns.append(("winner", result.winner_figures))
    figures = [f for _, f in columns]
    rows: list[tuple[str, ...]] = [("", *(name for name, _ in columns))]
    if own := objective_row(result.estimand, figures):
        rows.append(own)
    rows.append(("latency", *(duration(f.latency_ns) for f in figures)))
    rows.append(("load", *(duration(f.load_ns) for f in figures)))
    rows.append(("first run", *(duration(f.first_run_ns) for f in figures)))
    rows.append(("CPU a run", *(duration(f.cpu_per_run_ns) for f in figures)))
    rows.append(("peak memory", *(memory(f.peak_bytes) for f in figures)))
    if all(f.spread_ratio for f in figures):
        rows.append(("p90 / p10 in a process", *(spread(f) for f in figures)))
    return rows


def trade_cells(row: TradeRow) -> tuple[str, ...]:
    """Title, plan, latency, CPU time a run, peak memory, standing."""
    standing = "confirmed" if row.confirmed else "kept" if row.kept else "exploratory"
    figures = duration(row.latency_ns), duration(row.cpu_per_run_ns), memory(row.peak_bytes)
    return row.title, row.plan.describe(), *figures, standing


TRADE = (
    *(Column(head, "text") for head in ("", "plan")),
    *(Column(head) for head in ("latency", "CPU a run", "memory")),
    Column("", "text"),
)


def bundle_headline(info: BundleInfo) -> str:
    """What a bundle says of itself."""
    proof = info.proof
    if proof is None:
        return f"{info.plan.describe()}; the bundle holds no proof"
    gain = gain_words(proof) if proof.verdict == "faster" else proof.verdict
    return f"{info.plan.describe()}: {gain} ({bounds(proof)}), {blocks_words(proof)}"


def document(envelope: Envelope[TuneResult]) -> Document:
    """The tuning: the answer first, what supports it below, what to paste last."""
    result = envelope.result
    said = result.headline or headline(result)
    heads, *figures = sides(result)
    return Document(
        title=f"ortune tune: {result.side.label}",
        blocks=[
            *stopped(envelope),
            Line(said, _tone(result)),
            Pairs(rows=details(result)),
            table([Column("", "label"), *(Column(head) for head in heads[1:])], figures),
            table(precision_words.COLUMNS, precision_words.rows(result.precision)),
            table(TRADE, [trade_cells(row) for row in result.trade]),
            cases(result.cases, base_name(result), "winner", "change"),
            Code(title="to paste", lines=code_lines(result.code)),
            Pairs(rows=_places(result)),
        ],
        annotations=[
            Annotation(level="notice", title=f"ortune: {result.side.label}", lines=[said]),
            *finding_words.to_annotate(result.findings),
        ],
    )


def _tone(result: TuneResult) -> Tone:
    found = deciding(result)
    if found is not None and found.verdict == "faster" and found.phase == "confirm":
        invented = result.calibration is not None and not result.calibration.source and fewer_bits(result)
        return "unsure" if invented or any(g.failed for g in found.guards) else "good"
    return "strong"


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
    phases = (("calibration", b.calibration_s), ("race", b.race_s), ("confirmation", b.confirm_s))
    parts = [f"{name} {seconds:.0f} s" for name, seconds in phases if seconds]
    if b.n_trials:
        parts.insert(0, f"{b.n_trials} trials")
    return ", ".join(parts)
