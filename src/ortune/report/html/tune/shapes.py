"""Each input shape of the mix on its own."""

from __future__ import annotations

from ortune.records import CaseResult, Envelope, TuneResult
from ortune.report import sides
from ortune.report import tune_words as words
from ortune.report.html import svg
from ortune.report.numbers import duration

ORDER = 70
TITLE = "By input shape"
NOTE = "The verdict is over the weighted mix; this is how each shape fares. No claim is attached to a single row."


def content(envelope: Envelope[TuneResult]) -> dict[str, object] | None:
    """A row a shape; None for a single shape."""
    result = envelope.result
    if not result.cases:
        return None
    factors = [1 / v for c in result.cases for v in (c.ratio, c.ratio_low, c.ratio_high) if v]
    scale = svg.factor_scale(factors)
    return {
        "rows": [_row(case, scale) for case in result.cases],
        "axis": svg.axis(scale, words.times),
        "base": words.base_name(result),
    }


def _row(case: CaseResult, scale: svg.Scale) -> dict[str, object]:
    low = 1 / case.ratio_high if case.ratio_high else None
    high = 1 / case.ratio_low if case.ratio_low else None
    interval = words.factors(case.ratio_low, case.ratio_high)
    marks = svg.gridlines(scale, strong=1.0)
    marks += svg.interval(scale, 1 / case.ratio, low, high, sure=False, kind="winner")
    return {
        "name": case.case,
        "weight": f"{case.weight:.2f}",
        "base": duration(case.base_ns),
        "new": sides.case_value(case),
        "factor": words.times(1 / case.ratio),
        "interval": interval,
        "plot": svg.picture(f"{case.case}: {words.times(1 / case.ratio)} ({interval})", marks),
    }
