"""Block by block: the ratio that was tested, with its interval."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.records import BlockPoint, Comparison, Envelope
from ortune.show.chart import Box, Chart, Segment, bounds_of, factor_axis, order_axis, ordered_dots
from ortune.show.document import Block, Column, Fold, table
from ortune.show.numbers import times
from ortune.verbs._shared import tune_facts, tune_headline
from ortune.verbs.tune.result import TuneResult
from ortune.verbs.tune.sections import _points as points

ORDER = 30
TITLE = "Block by block"
NOTE = (
    "Each block ran both sides alternately in random order, so slowdowns that affect both cancel out. "
    "Band: the interval. Above the line at 1x the change is better."
)
HEIGHT_PX = 150


def blocks(envelope: Envelope[TuneResult]) -> list[Block]:
    """Return a chart for each comparison in fresh blocks, and a table of the values in each block."""
    result = envelope.result
    confirmed = [p for p in result.points if p.phase == "confirm"]
    now = "default" if tune_facts.current_plan(result) is None else "current"
    compared = [
        ("default", "winner", result.against_default),
        ("current", "winner", result.against_current),
        (now, "leader", result.refused.comparison if result.refused is not None else None),
    ]
    charts = [
        chart
        for base, new, comparison in compared
        if comparison is not None
        for chart in _chart(result, confirmed, (base, new), comparison)
    ]
    return [*charts, _numbers(result, confirmed)] if charts else []


def _numbers(result: TuneResult, confirmed: Sequence[BlockPoint]) -> Fold:
    roles = points.roles(result)
    rows = [
        [
            str(point.index),
            *(points.shown(result, points.value(result, point, role)) for role in roles),
            point.dropped,
        ]
        for point in confirmed
    ]
    names = [points.role_words(result, role) for role in roles]
    columns = [Column("block"), *(Column(name) for name in names), Column("dropped", "text")]
    return Fold(title="The numbers, block by block", blocks=[table(columns, rows)])


def _chart(
    result: TuneResult, confirmed: Sequence[BlockPoint], sides: tuple[str, str], comparison: Comparison
) -> list[Chart]:
    """Return a chart of the speed-up in each block; [] if no block contains both sides (base and new)."""
    base, new = sides
    factors: list[float | None] = []
    for point in confirmed:
        theirs, ours = points.value(result, point, base), points.value(result, point, new)
        factors.append(theirs / ours if theirs and ours and not point.dropped else None)
    numbers = [f for f in factors if f is not None]
    if not numbers:
        return []
    low, high = bounds_of(comparison.ratio_low, comparison.ratio_high)
    ends = [end for end in (low, high) if end is not None]
    axis = factor_axis([*numbers, *ends], times, slowest=0.01)
    across = order_axis(len(factors), "first block", "last block")
    estimate = 1 / comparison.ratio
    against = {"default": "the default", "current": "the current configuration"}[base]
    claim = f"{times(estimate)} ({tune_headline.bounds(comparison)})"
    title = f"Against {against}" if new == "winner" else f"The leader against {against}"
    return [
        Chart(
            title=f"{title}: {claim}, {len(numbers)} blocks",
            alt=f"Speed-up against {against} in each of {len(numbers)} blocks, {claim}",
            marks=(
                Box(x0=0.0, x1=across.high, y0=low or axis.low, y1=high or axis.high, hue="band winner"),
                Segment(x0=0.0, x1=across.high, y0=estimate, y1=estimate, hue="winner"),
                *ordered_dots(factors, "winner", joined=True),
            ),
            height_px=HEIGHT_PX,
            x=across,
            y=axis,
        )
    ]
