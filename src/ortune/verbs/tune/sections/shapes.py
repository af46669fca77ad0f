"""Result for each input shape of the workload."""

from __future__ import annotations

from ortune.records import CaseResult, Envelope
from ortune.show import numbers, sides
from ortune.show.chart import IntervalMark, bounds_of, factor_axis
from ortune.show.document import Block, Cell, Column, table
from ortune.show.numbers import duration, times
from ortune.verbs._shared import tune_facts
from ortune.verbs.tune.result import TuneResult

ORDER = 70
TITLE = "By input shape"
NOTE = "The verdict is for the weighted mix. Single rows are descriptive only."


def blocks(envelope: Envelope[TuneResult]) -> list[Block]:
    """Return a table with one row per shape; no rows for a single shape."""
    result = envelope.result
    factors = [1 / v for c in result.cases for v in (c.ratio, c.ratio_low, c.ratio_high) if v]
    columns = [
        Column("shape", "text"),
        Column("speed-up", "chart", axis=factor_axis(factors, times)),
        Column(f"{tune_facts.base_name(result)} to winner", "text"),
    ]
    return [table(columns, [_row(case) for case in result.cases])]


def _row(case: CaseResult) -> list[Cell]:
    low, high = bounds_of(case.ratio_low, case.ratio_high)
    factor = 1 / case.ratio
    gain = f"{times(factor)} ({numbers.factors(case.ratio_low, case.ratio_high)})"
    new = sides.case_value(case)
    both = f"{duration(case.base_ns)}{f' to {new}' if new else ''}"
    return [
        Cell(case.case, f"weight {case.weight:.2f}"),
        Cell(f"{case.case}: {gain}", marks=(IntervalMark(middle=factor, low=low, high=high, hue="winner"),)),
        Cell(f"{both}, {gain}"),
    ]
