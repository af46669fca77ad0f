"""A comparison in sentences; every format says the same."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.records import (
    CaseResult,
    ComparedSide,
    CompareResult,
    Comparison,
    Control,
    Envelope,
    Figures,
    Guard,
    Plan,
    ReadBack,
    VerdictName,
)
from ortune.report import difference_words, finding_words
from ortune.report.compare_gate import gate
from ortune.report.compare_outputs import by_output, outputs, outputs_cell
from ortune.report.document import (
    Annotation,
    Cell,
    Column,
    Document,
    Level,
    Line,
    Pairs,
    Table,
    Tone,
    stopped,
    table,
)
from ortune.report.numbers import (
    change,
    duration,
    factor,
    memory,
    percent,
    shorten,
    speed,
    three,
    waiting,
)  # fmt: skip
from ortune.report.placement_words import placed


def headline(result: CompareResult) -> str:
    """The one sentence: ratio, interval, smallest detectable effect, the outputs' difference."""
    comparison = result.comparison
    if comparison is None:
        return f"{result.name}'s outputs are wrong, so nothing was timed: {result.outputs.what}"
    return "; ".join(
        [claim(result), seen(comparison), outputs(result.outputs), *finding_words.caveats(result.findings)]
    )


def claim(result: CompareResult) -> str:
    """What is claimed about B against A, in the figure that was compared."""
    c = result.comparison
    assert c is not None
    # Of one side alone it is one of 95 %, which an exact test reaches or exceeds.
    level, name = f"{100 * c.level:.{1 if result.candidates else 0}f} % interval", result.name
    values = (
        f"{figure_value(result.base_figures, c.estimand)} -> {figure_value(result.new_figures, c.estimand)}"
    )
    if c.verdict in ("faster", "slower"):
        high = c.ratio_high if c.ratio_high is not None else float("inf")
        faster = c.verdict == "faster"
        ends = (1 / high, 1 / c.ratio_low if c.ratio_low > 0 else None) if faster else (c.ratio_low, high)
        low, up = ("anything" if end is None else factor(end) for end in ends)
        return f"{name} {_better_or_worse(c)}: {values} ({level} {low}-{up}, {c.n_blocks} blocks)"
    start = "no difference" if c.verdict == "equivalent" else "no difference shown"
    # A throughput is shown in runs a second, and changes of it are those of the time a run, as everywhere else.
    what = "time a run" if _is_rate(c.estimand) else c.estimand.partition(" (")[0]
    of = {"latency": ""}.get(estimand_kind(c.estimand), f" in {what}")
    blocks = "one block" if c.n_blocks == 1 else f"{c.n_blocks} blocks"
    if c.ratio_high is None and not c.ratio_low:
        return (
            f"{start}: {name} against A {change(c.ratio)}{of}, {values} ({blocks}, too few for an interval)"
        )
    interval = span(c.ratio_low, c.ratio_high)
    return (
        f"{start}: {name} against A {change(c.ratio)}{of}, {values} ({level} {interval}, {c.n_blocks} blocks)"
    )


def estimand_kind(estimand: str) -> str:
    """Which figure the estimand's words name: "latency", "cold", "cpu", "memory" or "other"."""
    starts = {"peak memory": "memory", "CPU time": "cpu", "cold start": "cold", "typical latency": "latency"}
    return next((kind for start, kind in starts.items() if estimand.startswith(start)), "other")


def statistic(estimand: str) -> str:
    """What a latency was compared by, as calibration chose it; "" for a figure that is what its name says."""
    return estimand.partition(" (")[2].removesuffix(")") if estimand_kind(estimand) == "latency" else ""


def _better_or_worse(c: Comparison) -> str:
    times = f"{factor(1 / c.ratio if c.ratio < 1 else c.ratio)}x"
    kind = estimand_kind(c.estimand)
    if kind in ("memory", "cpu"):
        return f"needs {times} {'less' if c.ratio < 1 else 'the'} {c.estimand} {'than' if c.ratio < 1 else 'of'} A"
    text = f"{'starts' if kind == 'cold' else 'is'} {speed(c.ratio)} than A"
    return text if kind != "other" else f"{text} in {c.estimand.partition(' (')[0]}"


def _is_rate(estimand: str) -> bool:
    return estimand.startswith("throughput")


def compared_ns(figures: Figures) -> float:
    """The time a run that was compared: the latency where that is what was, else the objective's own figure."""
    return figures.latency_ns if figures.objective_ns is None else figures.objective_ns


def rate(nanoseconds: float) -> str:
    """A time a run as a throughput: "847 runs/s"."""
    a_second = 1e9 / nanoseconds if nanoseconds else float("inf")
    return f"{a_second:,.0f} runs/s" if a_second >= 1000 else f"{three(a_second)} runs/s"


def figure_value(figures: Figures | None, estimand: str) -> str:
    """The figure that the estimand names, in its unit: "11.0 ms", "260 MiB", "847 runs/s"."""
    assert figures is not None
    kind = estimand_kind(estimand)
    if kind == "memory":
        return memory(figures.peak_bytes)
    if kind == "cpu":
        return duration(figures.cpu_per_run_ns)
    if kind == "cold":
        return duration(figures.load_ns + figures.first_run_ns)
    return rate(compared_ns(figures)) if _is_rate(estimand) else duration(compared_ns(figures))


def objective_row(estimand: str, figures: Sequence[Figures]) -> tuple[str, ...]:
    """Name and values of the time that was compared, where it is another than the latency; else empty."""
    if any(f.objective_ns is None for f in figures):
        return ()
    quantile = "lower quartile" if "lower quartile" in estimand else "p10"
    name = quantile if estimand_kind(estimand) == "latency" else estimand.partition(" (")[0]
    return name, *(figure_value(f, estimand) for f in figures)


def span(ratio_low: float, ratio_high: float | None) -> str:
    """An interval as signed changes: "-1.2 % to +0.4 %"."""
    return f"{change(ratio_low)} to {change(ratio_high) if ratio_high is not None else 'anything'}"


def seen(comparison: Comparison) -> str:
    """The smallest detectable effect, and how much longer would tell."""
    text = f"minimum detectable effect {percent(comparison.smallest_effect_ratio)}"
    if comparison.verdict == "inconclusive" and comparison.more_s:
        text += f"; about {waiting(comparison.more_s)} more would tell"
    return text


def guard_state(item: Guard) -> str:
    """One of "no worse", "worse, within the limit", "WORSE than allowed", "undecided", "not known"."""
    if not item.known or item.ratio is None:
        return "not known"
    if item.failed:
        return "WORSE than allowed"
    if item.ratio_high is None or item.ratio_high > item.limit_ratio:
        return "undecided"
    return "worse, within the limit" if (item.ratio_low or 0) > 1 else "no worse"


def guard(item: Guard) -> str:
    """One guard: "memory +0.3 % no worse"; an interval on both sides of the limit is "undecided"."""
    name = {"cpu": "CPU time", "mean": "mean", "p95": "p95", "memory": "peak memory"}[item.figure]
    if not item.known or item.ratio is None:
        return f"{name} {item.note or 'not known'}"
    return f"{name} {change(item.ratio)} {guard_state(item)}"


def noise(result: CompareResult) -> str:
    """What the controls said, and how many blocks were dropped."""
    parts = control_words(result.controls)
    dropped = result.comparison.n_dropped if result.comparison else 0
    if dropped:
        parts.append("one block dropped" if dropped == 1 else f"{dropped} blocks dropped")
    return "; ".join(parts)


def control_words(controls: Sequence[Control]) -> list[str]:
    """Each control in words."""
    parts = []
    for control in controls:
        if control.name == "spike-in" and control.expected_ratio and control.ratio is not None:
            interval = f" ({span(control.ratio_low or 0.0, control.ratio_high)})"
            found = "" if control.detected else ", too small to be seen in so few blocks"
            missed = "" if control.ok else ", MISSED"
            measured = f"{change(control.ratio)}{interval}{found}{missed}"
            parts.append(
                f"positive control: a wait of {change(control.expected_ratio)} measured as {measured}"
            )
        elif control.p is not None:
            late = " over the whole run" if control.name == "identical-late" else ""
            outcome = "passed" if control.ok else "FAILED"
            parts.append(f"A/A check {outcome}{late} (p = {control.p:.2g})")
    return parts


def details(result: CompareResult) -> list[tuple[str, str]]:
    """What supports the headline, each with its name: settings, guards, noise, findings, notes, failures."""
    sides = [(f"{c.name}: ", c.read_back, c.side) for c in result.candidates]
    found = [
        ("settings", name + "; ".join(setting(r, side.plan) for r in read_back))
        for name, read_back, side in sides or [("", result.read_back, result.new)]
        if read_back
    ]
    if result.comparison:
        found.append(("statistic", statistic(result.comparison.estimand)))
        found.append(("guards", ", ".join(guard(g) for g in result.comparison.guards)))
        found.append(("noise", noise(result)))
    found += finding_words.rows(result.findings)
    for name, _, side in [("A: ", (), result.base), *(sides or [(f"{result.name}: ", (), result.new)])]:
        found += [("placement", f"{name}{text}") for text in placed(side.placement)]
    found += [("note", text) for text in result.notes]
    found += [("failed", f"one trial ({f.reason}): {f.what}") for f in result.failures]
    return [(name, text) for name, text in found if text]


VERIFIED = {"effect": "verified", "echo": "accepted", "none": "not verified"}
"""How far a setting is known to have arrived: its effect was seen, the library repeats it, or neither."""


def setting(item: ReadBack, plan: Plan) -> str:
    """One setting of B and how far its arrival was verified."""
    value = plan.settings.get(item.knob, "default")
    text = f"{item.knob}={int(value) if isinstance(value, bool) else value}"
    if item.level == "none":
        return f"{text} {VERIFIED[item.level]}"
    # An echo only repeats the value in ONNX Runtime's own spelling; an effect says what was seen.
    seen = f" ({shorten(item.seen)})" if item.level == "effect" and item.seen else ""
    return f"{text} {VERIFIED[item.level]}{seen}"


def side_rows(result: CompareResult) -> list[tuple[str, str, str]]:
    """Name, A, B of what describes both sides (medians over trials)."""
    a, b = result.base_figures, result.new_figures
    if a is None or b is None:
        return []
    rows = [
        ("", result.base.label, result.new.label),
        ("plan", result.base.plan.describe(), result.new.plan.describe()),
    ]
    if result.base.runtime != result.new.runtime:
        rows.append(("onnxruntime", result.base.runtime.ort_version, result.new.runtime.ort_version))
    rows += [
        *_objective(result, a, b),
        ("latency", duration(a.latency_ns), duration(b.latency_ns)),
        ("load", duration(a.load_ns), duration(b.load_ns)),
        ("first run", duration(a.first_run_ns), duration(b.first_run_ns)),
        ("CPU a run", duration(a.cpu_per_run_ns), duration(b.cpu_per_run_ns)),
        ("peak memory", memory(a.peak_bytes), memory(b.peak_bytes)),
    ]
    if a.spread_ratio and b.spread_ratio:
        rows.append(("p90 / p10 in a process", spread(a), spread(b)))
    return rows


def _objective(result: CompareResult, a: Figures, b: Figures) -> list[tuple[str, str, str]]:
    found = objective_row(result.comparison.estimand, (a, b)) if result.comparison else ()
    return [(found[0], found[1], found[2])] if found else []


def spread(figures: Figures) -> str:
    """p90 over p10 within a process, with its interval over processes: "1.07 (1.05-1.09)"; "" where not known."""
    if figures.spread_ratio is None:
        return ""
    text = f"{figures.spread_ratio:.2f}"
    if figures.spread_low_ratio is None or figures.spread_high_ratio is None:
        return text
    return f"{text} ({figures.spread_low_ratio:.2f}-{figures.spread_high_ratio:.2f})"


TONES: dict[VerdictName, Tone] = {
    "faster": "good",
    "slower": "bad",
    "equivalent": "strong",
    "inconclusive": "unsure",
    "wrong-output": "bad",
    "invalid": "bad",
}


def document(envelope: Envelope[CompareResult]) -> Document:
    """The comparison: the answer first, what supports it below."""
    result = envelope.result
    sides = [Column("", "label"), Column("A", "text"), Column(result.name, "text")]
    why = difference_words.brief(result.why) if result.why is not None else []
    return Document(
        title=f"ortune compare: {result.base.label} against {result.new.label}",
        blocks=[
            *(Line(line, "strong") for line in gate(result)),
            *stopped(envelope),
            Line(headline(result), _tone(result)),
            ranking(result),
            Pairs(rows=details(result)),
            # Values of a row have different units from those above and below: left-aligned, they read as a list.
            table(sides, side_rows(result)),
            cases(result.cases, "A", result.name, f"{result.name} against A"),
            # Error beside speed, once it is more than rounding.
            *([] if result.outputs.ok and not result.outputs.asked else [by_output(result.outputs)]),
            Pairs(rows=[("" if i else "why", line) for i, line in enumerate(why)]),
        ],
        annotations=_annotations(result),
    )


def _tone(result: CompareResult) -> Tone:
    tone = TONES[result.comparison.verdict if result.comparison else "wrong-output"]
    # What is faster and no longer the same is for its user to judge.
    return "unsure" if tone == "good" and not result.outputs.ok else tone


def ranking(result: CompareResult) -> Table:
    """Every side that was held against the base, the fastest first; of one side alone no rows."""
    sides = result.candidates
    compared = [c for c in (side.comparison for side in sides) if c is not None]
    estimand = compared[0].estimand if compared else "typical latency"
    figure = "latency" if estimand_kind(estimand) == "latency" else estimand.partition(" (")[0]
    told = [side.side for side in sides] + [result.base]
    which = [
        (Column("model", "name"), [side.label for side in told]),
        (Column("settings", "text"), [side.plan.describe() for side in told]),
    ]
    # What is the same of all tells nothing.
    which = [(column, texts) for column, texts in which if len(set(texts)) > 1]
    names = list(zip(*(texts for _, texts in which), strict=True)) or [()] * len(told)
    columns = [Column("", "label"), *(column for column, _ in which), Column(figure)]
    columns += [Column("against A", "text"), Column("interval", "text"), Column("outputs", "text")]
    rows: list[tuple[Cell | str, ...]] = [
        (
            side.name,
            *called,
            "" if side.figures is None else figure_value(side.figures, estimand),
            _against(side),
            "" if side.comparison is None else _interval(side.comparison),
            outputs_cell(side),
        )
        for side, called in zip(sides, names, strict=False)
    ]
    if rows and result.base_figures is not None:
        rows.append(("A", *names[-1], figure_value(result.base_figures, estimand), "", "", ""))
    levels = {c.level for c in compared}
    together = [f"intervals of {100 * min(levels):.3g} % hold together with 95 %"] if len(levels) == 1 else []
    if len(levels) > 1:
        together = ["intervals are as wide as many claims at once need, with 95 % for all (Holm)"]
    return table(columns, rows, notes=together)


def _against(side: ComparedSide) -> Cell:
    c = side.comparison
    if c is None:
        return Cell("does not run" if side.outputs is None else "not timed", tone="bad")
    words = {"equivalent": "no difference", "inconclusive": f"undecided ({change(c.ratio)})"}
    tone = TONES[c.verdict]
    ok = side.outputs is not None and side.outputs.ok
    return Cell(words.get(c.verdict, speed(c.ratio)), tone=tone if ok or tone != "good" else "unsure")


def _interval(c: Comparison) -> str:
    return "too few blocks" if c.ratio_high is None and not c.ratio_low else span(c.ratio_low, c.ratio_high)


def cases(rows: Sequence[CaseResult], base: str, new: str, change_head: str) -> Table:
    """Each shape of a mix on its own."""
    columns = [Column("shape", "text"), *(Column(h) for h in ("weight", base, new, change_head))]
    return table(
        [*columns, Column("interval", "text")],
        [
            (
                case.case,
                f"{case.weight:.2f}",
                duration(case.base_ns),
                duration(case.new_ns),
                change(case.ratio),
                span(case.ratio_low, case.ratio_high),
            )
            for case in rows
        ],
    )


def _annotations(result: CompareResult) -> list[Annotation]:
    """One for the answer, one a finding."""
    level: Level = "error" if result.comparison is None else "notice" if result.outputs.ok else "warning"
    gates = [g for g in (result.gate, *(c.gate for c in result.candidates)) if g is not None]
    if gates:
        answers = {g.undecided_counts_as if g.answer == "undecided" else g.answer for g in gates}
        undecided = any(g.answer == "undecided" for g in gates)
        level = "error" if "fail" in answers else "warning" if undecided else "notice"
    text = [*gate(result), headline(result)]
    return [
        Annotation(level=level, title=f"ortune: {result.new.label}", lines=text),
        *finding_words.to_annotate(result.findings),
    ]
