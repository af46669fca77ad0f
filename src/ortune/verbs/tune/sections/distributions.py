"""Distribution of the blocks of the default, the current plan, and the winner or leader."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.records import Envelope
from ortune.show.chart import Axis, Box, Dot, Mark, Segment, value_axis
from ortune.show.document import Block, Cell, Column, table
from ortune.show.sides import statistic_name
from ortune.verbs.tune.result import TuneResult
from ortune.verbs.tune.sections import _points as points

ORDER = 20
TITLE = "Distributions"
NOTE = (
    "One dot per block: the figure of one fresh process. Tick: median; bar: IQR. Sides are compared within each block, "
    "so the change may be another than that of the medians. The axis might not start at 0."
)
APART = (0.0, -0.17, 0.17, -0.08, 0.08, -0.25, 0.25)
"""Vertical offsets that keep neighbouring dots apart."""


def blocks(envelope: Envelope[TuneResult]) -> list[Block]:
    """Return a chart with one strip of dots per role on a common axis; [] if no block was measured."""
    result = envelope.result
    counting = points.counting(result.points)
    values = {
        role: [v for p in counting if (v := points.value(result, p, role)) is not None]
        for role in points.roles(result)
    }
    values = {role: numbers for role, numbers in values.items() if numbers}
    if not values:
        return []
    recorded = [v for role in values for v in points.middle(result, role) if v is not None]
    axis = value_axis([*recorded, *(v for numbers in values.values() for v in numbers)], points.words(result))
    phase = "the confirmation" if counting[0].phase == "confirm" else "the search and the calibration"
    columns = [
        Column("side", "label"),
        Column("one dot per block", "chart", axis=axis),
        Column("median"),
        Column("IQR"),
    ]
    rows = [_row(result, role, numbers, axis) for role, numbers in values.items()]
    return [table(columns, rows, title=f"{statistic_name(result.statistic)}, in the blocks of {phase}")]


def _row(result: TuneResult, role: str, values: Sequence[float], axis: Axis) -> list[Cell]:
    median, low, high = points.middle(result, role)
    marks: list[Mark] = []
    hue = points.HUES.get(role, role)
    if low is not None and high is not None:
        marks.append(Box(x0=low, x1=max(low, high), y0=0.1, y1=0.9, hue=f"quartiles {hue}"))
    marks += [Dot(x=value, y=0.5 + APART[i % len(APART)], hue=hue) for i, value in enumerate(values)]
    if median is not None:
        marks.append(Segment(x0=median, x1=median, hue=f"median {hue}"))
    name, middle = points.role_words(result, role), points.shown(result, median)
    ends = f"{points.shown(result, min(values))} to {points.shown(result, max(values))}"
    alt = f"{name}: {len(values)} blocks from {ends}{f', median {middle}' if middle else ''}"
    quartiles = f"{points.shown(result, low)} to {points.shown(result, high)}" if low and high else ""
    return [Cell(name, key=hue), Cell(alt, marks=tuple(marks)), Cell(middle), Cell(quartiles)]
