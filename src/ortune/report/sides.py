"""The table of two or three sides, the same for every verb: a row a figure, what it was and how it changed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ortune.records import CaseResult, Comparison, Figures, Guard
from ortune.report.document import Cell, Column, Table, Tone, table
from ortune.report.numbers import (
    NOMINAL,
    change,
    duration,
    interval_name,
    memory,
    rate,
    rounding,
    span,
)

UNPROVEN = 1.05
"""Factor by which two figures may be apart from a ratio that has no interval."""
_LATENCY = re.compile(r"(p\d+) latency")
FIRST_LOAD = "first load (writes its cache)"
DRIFTED = "no value where performance drifted: the medians do not show the paired change"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """How a figure changed, paired: a ratio with its interval, or why that is not known."""

    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    tone: Tone = ""
    note: str = ""

    def agrees(self, a: float, b: float, texts: Sequence[str]) -> bool:
        """Returns whether two figures as written are apart as the interval says; without one, as the ratio."""
        if self.ratio is None:
            return True
        low, high = self.low, self.high
        if low is None and high is None:
            low, high = self.ratio / UNPROVEN, self.ratio * UNPROVEN
        # 1.2 and 1.3 ms may each be 4 % off as they are written.
        off = 1 + sum(rounding(text) for text in texts)
        return (low or 0.0) / off <= b / a <= (high or math.inf) * off


def statistic_name(statistic: str) -> str:
    """Says which figure was compared, in a word: "p50", "p25", "p10", "p95", "throughput", "peak memory", ..."""
    if match := _LATENCY.match(statistic):
        return match[1]
    return statistic.partition(" (")[0].replace("a run", "per run")


def kind(statistic: str) -> str:
    """What kind of figure was compared: "latency", "cold", "cpu", "memory" or "other"."""
    starts = {"peak memory": "memory", "CPU time": "cpu", "cold start": "cold"}
    if statistic_name(statistic) in ("p50", "p25", "p10"):
        return "latency"
    return next((name for start, name in starts.items() if statistic.startswith(start)), "other")


def is_rate(statistic: str) -> bool:
    """Returns whether more is better: a time a run that is shown as runs a second."""
    return statistic.startswith("throughput")


def compared_ns(figures: Figures) -> float:
    """The time a run that was compared: the latency where that is what was, else the objective's own figure."""
    return figures.latency_ns if figures.objective_ns is None else figures.objective_ns


def value(figures: Figures | None, statistic: str) -> str:
    """The figure that the statistic names, in its unit: "11.0 ms", "260 MiB", "847 runs/s"."""
    assert figures is not None
    match kind(statistic):
        case "memory":
            return memory(figures.peak_bytes)
        case "cpu":
            return duration(figures.cpu_per_run_ns)
        case "cold":
            return duration(figures.load_ns + figures.first_run_ns)
        case _:
            return rate(compared_ns(figures)) if is_rate(statistic) else duration(compared_ns(figures))


def beside(base: Figures | None, new: Figures | None, comparison: Comparison) -> str:
    """The new side's figure; "" where its ratio to the base's lies outside the interval of the paired change."""
    return values(base, new, comparison).rpartition(" -> ")[2]


def values(base: Figures | None, new: Figures | None, comparison: Comparison) -> str:
    """Both sides' figure ("11.0 ms -> 9.90 ms"); "" where the interval of the paired change excludes their ratio."""
    if base is None or new is None:
        return ""
    a, b = _number(base, comparison.statistic), _number(new, comparison.statistic)
    texts = value(base, comparison.statistic), value(new, comparison.statistic)
    if not a or not b or not _changed(comparison).agrees(a, b, texts):
        return ""
    return " -> ".join(texts)


def case_value(case: CaseResult) -> str:
    """The new side's time at one shape of a mix; "" where the medians contradict the paired change."""
    base, new = duration(case.base_ns), duration(case.new_ns)
    changed = Changed(ratio=case.ratio, low=case.ratio_low or None, high=case.ratio_high)
    return new if changed.agrees(case.base_ns, case.new_ns, (base, new)) else ""


def as_shown(comparison: Comparison) -> tuple[float, float, float | None]:
    """Ratio and interval of the figure that is shown: of a throughput, whose times were compared, turned round."""
    if not is_rate(comparison.statistic):
        return comparison.ratio, comparison.ratio_low, comparison.ratio_high
    low = 1 / comparison.ratio_high if comparison.ratio_high else 0.0
    return 1 / comparison.ratio, low, 1 / comparison.ratio_low if comparison.ratio_low else None


def sides_table(
    sides: Sequence[tuple[str, Figures]], statistic: str, comparison: Comparison | None, against: str
) -> Table:
    """A row a figure, a column a side, and the last side's change against ``against``.

    Args:
        sides: Names and figures, in their order.
        statistic: What was compared.
        comparison: The last side against ``against``; None where nothing was compared.
        against: Which of the sides that is.
    """
    names, figures = [name for name, _ in sides], [column for _, column in sides]
    base = dict(sides).get(against, figures[0])
    changes = dict(_changes(comparison)) if comparison else {}
    rows, drifted, at = [], False, names.index(against) if against in names else 0
    for name, texts, numbers in _rows(figures, statistic, base):
        changed = changes.get(name)
        if changed and numbers and not changed.agrees(*numbers, (texts[at], texts[-1])):
            # Two times that show another change than the one beside them: only the change is shown.
            drifted, texts[-1] = True, ""
        row: list[Cell | str] = [name, *texts]
        if comparison:
            row += _cells(changed, inverse=is_rate(name))
        rows.append(row)
    columns = [Column("", "label"), *(Column(name) for name in names)]
    notes = []
    if comparison:
        columns += [Column(f"vs {against}"), Column("95 % interval", "text")]
        if comparison.level < NOMINAL - 0.01:
            notes.append(
                f"too few blocks for 95 %: {statistic_name(statistic)} has a {interval_name(comparison.level)}"
            )
        notes += [DRIFTED] if drifted else []
    return table(columns, rows, notes=notes)


def _rows(
    figures: Sequence[Figures], statistic: str, base: Figures
) -> Iterator[tuple[str, list[str], tuple[float, float] | None]]:
    """Name, a text a side, and the numbers of base and last side where they can be held against a change."""
    last = figures[-1]
    first = statistic_name(statistic)
    # What was compared comes first, whatever it is.
    both = _both(_number(base, statistic), _number(last, statistic))
    yield first, [value(f, statistic) for f in figures], both
    if first != "p50":
        yield "p50", [duration(f.latency_ns) for f in figures], _both(base.latency_ns, last.latency_ns)
    if first != "p95" and all(f.p95_ns for f in figures):
        yield "p95", [duration(f.p95_ns or 0) for f in figures], _both(base.p95_ns, last.p95_ns)
    if first != "CPU time per run":
        cpu = _both(base.cpu_per_run_ns, last.cpu_per_run_ns)
        yield "CPU time per run", [duration(f.cpu_per_run_ns) for f in figures], cpu
    if first != "peak memory":
        yield "peak memory", [memory(f.peak_bytes) for f in figures], _both(base.peak_bytes, last.peak_bytes)
    yield "load time", [duration(f.load_ns) for f in figures], _both(base.load_ns, last.load_ns)
    if any(f.first_load_ns for f in figures):
        yield FIRST_LOAD, [duration(f.first_load_ns) if f.first_load_ns else "" for f in figures], None


def _both(a: float | None, b: float | None) -> tuple[float, float] | None:
    return (a, b) if a and b else None


def _number(figures: Figures, statistic: str) -> float | None:
    match kind(statistic):
        case "memory":
            return figures.peak_bytes
        case "cpu":
            return figures.cpu_per_run_ns
        case "cold":
            return figures.load_ns + figures.first_run_ns
        case _:
            return compared_ns(figures)


def no_interval(comparison: Comparison) -> bool:
    """Returns whether there are too few blocks for an interval."""
    return comparison.ratio_high is None and not comparison.ratio_low


def interval(comparison: Comparison) -> str:
    """The interval of the change, or that there is none yet."""
    return "too few blocks" if no_interval(comparison) else span(comparison.ratio_low, comparison.ratio_high)


def _changed(comparison: Comparison) -> Changed:
    tones: dict[str, Tone] = {"faster": "good", "slower": "bad"}
    if no_interval(comparison):
        return Changed(ratio=comparison.ratio, note="too few blocks")
    low, high = comparison.ratio_low, comparison.ratio_high
    return Changed(ratio=comparison.ratio, low=low, high=high, tone=tones.get(comparison.verdict, ""))


def _changes(comparison: Comparison) -> Iterator[tuple[str, Changed]]:
    """What is known of each row's change, by the row's name."""
    rows = {
        "p95": "p95",
        "memory": "peak memory",
        "cpu": "CPU time per run",
        "load": "load time",
        "p50": "p50",
    }
    for also in comparison.beside:
        yield rows[also.figure], Changed(ratio=also.ratio, low=also.ratio_low, high=also.ratio_high)
    for guard in comparison.guards:
        if guard.figure in rows:
            yield rows[guard.figure], _guarded(guard)
    yield statistic_name(comparison.statistic), _changed(comparison)


def _guarded(guard: Guard) -> Changed:
    if not guard.known or guard.ratio is None:
        return Changed(note=guard.note.removeprefix("not known: ") or "not known")
    if guard.ratio_low is None:
        return Changed(ratio=guard.ratio, note="a single observation")
    tone: Tone = "bad" if guard.failed else ""
    return Changed(ratio=guard.ratio, low=guard.ratio_low, high=guard.ratio_high, tone=tone)


def _cells(changed: Changed | None, *, inverse: bool) -> list[Cell]:
    """The change and its interval; of a throughput, whose times were compared, the other way round."""
    if changed is None:
        return [Cell(""), Cell("single observations", tone="faint")]
    if changed.ratio is None:
        return [Cell(""), Cell(changed.note, tone="faint")]
    ratio, low, high = changed.ratio, changed.low, changed.high
    if inverse:
        ratio, low, high = 1 / ratio, 1 / high if high else 0.0, 1 / low if low else None
    interval = changed.note if changed.low is None else span(low or 0.0, high)
    return [Cell(change(ratio), tone=changed.tone), Cell(interval, tone="faint" if changed.note else "")]
