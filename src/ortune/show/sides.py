"""The table of two or three sides for all verbs: one row per metric, with the sides' values and the change."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from ortune.records import CaseResult, Comparison, Figures, Guard
from ortune.show.document import Cell, Column, Table, Tone, table
from ortune.show.numbers import (
    NOMINAL,
    UNKNOWN,
    change,
    duration,
    factor,
    interval_name,
    memory,
    rate,
    rounding,
    span,
)

UNPROVEN = 1.05
"""Factor by which the quotient of two values may deviate from a ratio without an interval."""
_LATENCY = re.compile(r"(p\d+) latency")
_QUANTILES = ("p10", "p25", "p50", "p95")
FIRST_LOAD = "first load (writes its cache)"
DRIFTED = (
    "performance drifted during the measurement: values of {new} are those of {base} times the paired change"
)
"""Note below a table whose medians contradict the paired change."""
LOWER_QUANTILE = "{statistic} was compared because it varied less than p50 in the calibration"
"""Note below a table in which a calibration replaced p50."""
NAME = interval_name(NOMINAL)
"""Head of the column of intervals; a note names the level if it is a different one."""
Write = Callable[[float, int], str]
"""Formats a number with its unit; the second argument is the number of significant digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The paired change of a metric: a ratio with its interval, or a note on why the change is unknown."""

    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    tone: Tone = ""
    note: str = ""

    def agrees(self, a: float, b: float, texts: Sequence[str]) -> bool:
        """Return whether ``b / a`` is within the interval, or close to the ratio if there is no interval.

        The rounding of the numbers in ``texts`` is allowed for. True if the ratio is unknown.
        """
        if self.ratio is None:
            return True
        low, high = self.low, self.high
        if low is None and high is None:
            low, high = self.ratio / UNPROVEN, self.ratio * UNPROVEN
        # 1.2 and 1.3 ms may each be 4 % off because of rounding.
        off = 1 + sum(rounding(text) for text in texts)
        return (low or 0.0) / off <= b / a <= (high or math.inf) * off


MORE_MEMORY = 1.01
"""Lower limit of a ratio's interval above which more memory is reported."""
MEMORY: dict[str, Callable[[Figures], float | None]] = {
    "peak memory": lambda figures: figures.peak_bytes,
    "idle memory": lambda figures: figures.idle_bytes,
    "memory after release": lambda figures: figures.released_bytes,
}
"""Maps memory metrics to functions that read them."""


def statistic_name(statistic: str) -> str:
    """Return the short name of a statistic: "p50", "p25", "p10", "p95", "throughput", "peak memory", ..."""
    if match := _LATENCY.match(statistic):
        return match[1]
    return statistic.partition(" (")[0].replace("a run", "per run")


def kind(statistic: str) -> str:
    """Return the kind of a statistic: "latency", "cold", "cpu", "memory" or "other"."""
    starts = {**dict.fromkeys(MEMORY, "memory"), "CPU time": "cpu", "cold start": "cold"}
    if statistic_name(statistic) in ("p50", "p25", "p10"):
        return "latency"
    return next((name for start, name in starts.items() if statistic.startswith(start)), "other")


def is_rate(statistic: str) -> bool:
    """Return whether a statistic is shown as runs per second, although times are compared."""
    return statistic.startswith("throughput")


def compared_ns(figures: Figures) -> float:
    """Return the compared time per run in ns: the time of the objective, or the latency without an objective."""
    return figures.latency_ns if figures.objective_ns is None else figures.objective_ns


def value(figures: Figures | None, statistic: str) -> str:
    """Return a side's value of the statistic with its unit: "11.0 ms", "260 MiB", "847 runs/s"."""
    assert figures is not None
    return text(number(figures, statistic), statistic)


def text(measured: float | None, statistic: str) -> str:
    """Return a value of the statistic with its unit; "not known" for None."""
    return UNKNOWN if measured is None else _writer(statistic)(measured, 3)


def _writer(statistic: str) -> Write:
    """Return the function that formats the values of a statistic."""
    if kind(statistic) == "memory":
        return memory
    return rate if is_rate(statistic) else duration


def new_value(base: Figures | None, new: Figures | None, comparison: Comparison) -> str:
    """Return the new side's value as ``values`` shows it; "" if either side's value is unknown."""
    return values(base, new, comparison).rpartition(" -> ")[2]


def values(base: Figures | None, new: Figures | None, comparison: Comparison) -> str:
    """Return both sides' values of the compared statistic: "11.0 ms -> 9.90 ms"; "" if either value is unknown.

    The second value is the first value times the paired ratio. The quotient of the sides' medians is a less precise
    estimate of the change, because the medians are from different moments, and it could contradict the ratio.
    """
    pair = paired(base, new, comparison)
    return " -> ".join(written_pair(*pair, _writer(comparison.statistic))) if pair else ""


def paired(base: Figures | None, new: Figures | None, comparison: Comparison) -> tuple[float, float] | None:
    """Return the base's value (ns or bytes), and this value times the paired ratio; None if either value is unknown."""
    if base is None or new is None:
        return None
    before = number(base, comparison.statistic)
    return (before, before * comparison.ratio) if before and number(new, comparison.statistic) else None


def with_values(comparison: Comparison, base: Figures | None, new: Figures | None) -> Comparison:
    """Return the comparison with the values of ``paired``, which all formats show, filled in."""
    before, after = paired(base, new, comparison) or (None, None)
    return msgspec.structs.replace(comparison, base_value=before, new_value=after)


def written_pair(before: float, after: float, write: Write) -> tuple[str, str]:
    """Format two values with as many digits (three to five) as make their quotient the factor shown with them."""
    if not before or not after:
        return write(before, 3), write(after, 3)
    ratio = max(before / after, after / before)
    unit = 10.0 ** -len(factor(ratio).partition(".")[2])
    for digits in (3, 4):
        texts = write(before, digits), write(after, digits)
        if abs(_quotient(*texts) - ratio) <= unit:
            return texts
    return write(before, 5), write(after, 5)


def _quotient(*texts: str) -> float:
    """Return the larger of two formatted values divided by the smaller; infinite if their units differ or one is 0."""
    (a, a_unit), (b, b_unit) = ((float(n.replace(",", "")), unit) for n, unit in map(str.split, texts))
    return max(a / b, b / a) if a and b and a_unit == b_unit else math.inf


def case_value(case: CaseResult) -> str:
    """Return the new side's time for one shape of a mix: the base's time multiplied by the paired ratio."""
    return written_pair(case.base_ns, case.base_ns * case.ratio, duration)[1]


def as_shown(comparison: Comparison) -> tuple[float, float, float | None]:
    """Return the ratio and its interval as shown: inverted for throughput, because times were compared."""
    if not is_rate(comparison.statistic):
        return comparison.ratio, comparison.ratio_low, comparison.ratio_high
    low = 1 / comparison.ratio_high if comparison.ratio_high else 0.0
    return 1 / comparison.ratio, low, 1 / comparison.ratio_low if comparison.ratio_low else None


def sides_table(
    sides: Sequence[tuple[str, Figures]], statistic: str, comparison: Comparison | None, against: str
) -> Table:
    """Return a table with one row per metric, one column per side, and the last side's change from ``against``.

    Args:
        sides: Pairs of a side's name and figures.
        statistic: The compared statistic.
        comparison: Comparison of the last side with ``against``; None if nothing was compared.
        against: Name of the reference side; the first side is the reference if no side has this name.
    """
    names, figures = [name for name, _ in sides], [column for _, column in sides]
    at = names.index(against) if against in names else 0
    changes = dict(_changes(comparison)) if comparison else {}
    rows, drifted = [], False
    shown: dict[str, float] = {}  # the last side's quantiles as shown
    drift = 1.0  # the ratio of the newest of them to that side's own quantile
    for name, write, numbers in _rows(figures, statistic):
        changed, texts = changes.get(name), ["" if n is None else write(n, 3) for n in numbers]
        before, own = numbers[at], numbers[-1]
        after, known = own, changed is not None and changed.ratio is not None
        if changed and changed.ratio is not None and before and own:
            drifted = drifted or not changed.agrees(before, own, (texts[at], texts[-1]))
            after = before * changed.ratio
            texts[at], texts[-1] = written_pair(before, after, write)
        if name in _QUANTILES and own and after:
            if not _ordered({**shown, name: after}):
                # Values shown are the base's times the paired changes. A quantile of other moments can be on the
                # wrong side of them, in which case only its ratio to that side's own quantiles is known.
                after, drifted = drift * own, True
                texts[-1] = UNKNOWN if known else write(after, 3)
            if texts[-1] != UNKNOWN:
                shown[name], drift = after, after / own
        row: list[Cell | str] = [name, *texts]
        if comparison:
            row += _cells(changed, inverse=is_rate(name))
        rows.append(row)
    columns = [Column("", "label"), *(Column(name) for name in names)]
    notes = lower_quantile(statistic)
    if comparison:
        columns += [Column(f"vs {against}"), Column(NAME, "text")]
        if interval_name(comparison.level) != NAME and not no_interval(comparison):
            notes.append(f"{statistic_name(statistic)} has a {interval_name(comparison.level)}")
        notes += [DRIFTED.format(new=names[-1], base=names[at])] if drifted else []
    return table(columns, rows, notes=notes)


def lower_quantile(statistic: str) -> list[str]:
    """Return a note on why a quantile below p50 was compared; [] for other statistics."""
    name = statistic_name(statistic)
    return [LOWER_QUANTILE.format(statistic=name)] if name in ("p25", "p10") else []


def _ordered(quantiles: Mapping[str, float]) -> bool:
    """Return whether the values, keyed by the names of quantiles, increase with the quantile."""
    values = [quantiles[name] for name in _QUANTILES if name in quantiles]
    return all(lower <= higher for lower, higher in pairwise(values))


def _rows(figures: Sequence[Figures], statistic: str) -> Iterator[tuple[str, Write, list[float | None]]]:
    """Yield the name of each metric, its formatter, and one value per side."""
    first = statistic_name(statistic)
    # The compared figure comes first.
    yield first, _writer(statistic), [number(f, statistic) for f in figures]
    if first != "p50":
        yield "p50", duration, [f.latency_ns for f in figures]
    if first != "p95" and all(f.p95_ns for f in figures):
        yield "p95", duration, [f.p95_ns for f in figures]
    if first != "CPU time per run":
        yield "CPU time per run", duration, [f.cpu_per_run_ns for f in figures]
    for name, size in MEMORY.items():
        values = [size(f) for f in figures]
        # Memory after a run is only shown if memory was compared.
        if first != name and (name == "peak memory" or (first in MEMORY and any(values))):
            yield name, memory, values
    yield "load time", duration, [f.load_ns for f in figures]
    if any(f.first_load_ns for f in figures):
        yield FIRST_LOAD, duration, [f.first_load_ns or None for f in figures]


def number(figures: Figures, statistic: str) -> float | None:
    """Return a side's value of the statistic, in nanoseconds or bytes; None if unknown."""
    match kind(statistic):
        case "memory":
            return MEMORY[statistic_name(statistic)](figures)
        case "cpu":
            return figures.cpu_per_run_ns
        case "cold":
            return figures.load_ns + figures.first_run_ns
        case _:
            return compared_ns(figures)


def single(comparison: Comparison) -> bool:
    """Return whether there is only one block, whose ratio is not shown because it proves nothing."""
    return comparison.n_blocks < 2 and no_interval(comparison)


def no_interval(comparison: Comparison) -> bool:
    """Return whether there are too few blocks for an interval."""
    return comparison.ratio_high is None and not comparison.ratio_low


def interval(comparison: Comparison) -> str:
    """Return the interval of the change, or "too few blocks"."""
    return "too few blocks" if no_interval(comparison) else span(comparison.ratio_low, comparison.ratio_high)


def _changed(comparison: Comparison) -> Changed:
    tones: dict[str, Tone] = {"faster": "good", "slower": "bad"}
    if single(comparison):
        return Changed(note="a single block")
    if no_interval(comparison):
        return Changed(ratio=comparison.ratio, note="too few blocks")
    low, high = comparison.ratio_low, comparison.ratio_high
    return Changed(ratio=comparison.ratio, low=low, high=high, tone=tones.get(comparison.verdict, ""))


def _changes(comparison: Comparison) -> Iterator[tuple[str, Changed]]:
    """Yield the name of each row whose change is known, and the change."""
    rows = {
        "p95": "p95",
        "memory": "peak memory",
        "cpu": "CPU time per run",
        "load": "load time",
        "p50": "p50",
        "idle": "idle memory",
        "released": "memory after release",
    }
    for also in comparison.beside:
        yield rows[also.figure], Changed(ratio=also.ratio, low=also.ratio_low, high=also.ratio_high)
    for guard in comparison.guards:
        if guard.figure in rows:
            yield rows[guard.figure], _guarded(guard)
    yield statistic_name(comparison.statistic), _changed(comparison)


def more_memory(comparison: Comparison) -> list[str]:
    """Return a phrase for each other memory metric that increased although the compared memory metric decreased."""
    if kind(comparison.statistic) != "memory" or comparison.verdict != "faster":
        return []
    rows = dict(_changes(comparison))
    names = [name for name in MEMORY if name in rows and name != statistic_name(comparison.statistic)]
    return [
        f"MORE {name} {change(row.ratio)} ({span(row.low, row.high)})"
        for name in names
        if (row := rows[name]).ratio is not None and row.low is not None and row.low > MORE_MEMORY
    ]


def _guarded(guard: Guard) -> Changed:
    if not guard.known or guard.ratio is None:
        return Changed(note=guard.note.removeprefix("not known: ") or "not known")
    if guard.ratio_low is None:
        return Changed(ratio=guard.ratio, note="a single observation")
    tone: Tone = "bad" if guard.failed else ""
    return Changed(ratio=guard.ratio, low=guard.ratio_low, high=guard.ratio_high, tone=tone)


def _cells(changed: Changed | None, *, inverse: bool) -> list[Cell]:
    """Return the cells for a change and its interval; ``inverse`` for throughput, because times were compared."""
    if changed is None:
        return [Cell(""), Cell("single observations", tone="faint")]
    if changed.ratio is None:
        return [Cell(""), Cell(changed.note, tone="faint")]
    ratio, low, high = changed.ratio, changed.low, changed.high
    if inverse:
        ratio, low, high = 1 / ratio, 1 / high if high else 0.0, 1 / low if low else None
    interval = changed.note if changed.low is None else span(low or 0.0, high)
    return [Cell(change(ratio), tone=changed.tone), Cell(interval, tone="faint" if changed.note else "")]
