"""The difference between two profiles as a section of a page: the change of time, B minus A."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.records import DifferenceRow, ProfileDifference
from ortune.show import difference_tables, difference_words
from ortune.show.chart import Axis, Box, Mark, Segment, signed_axis
from ortune.show.document import Block, Cell, Column, Fold, Line, Pairs, Section, Table, table
from ortune.show.profile_tables import TimeUnit

NOTE = (
    "B minus A in the mean run, the largest contribution first. Line: its interval, which is wider with more rows. "
    "Hollow: within noise, or too few runs to judge."
)


MOST_NODES = 60


MOST_OPERATORS = 20


def tables_and_notes(difference: ProfileDifference) -> list[Block]:
    """Return tables by category, operator and node with one bar per row, and notes such as nodes on only one side.

    If the profiler's overhead hides the difference, only the notes are returned.
    """
    if difference_tables.is_hidden(difference):
        return [
            Line(difference_words.headline(difference), "unsure"),
            Pairs(rows=difference_words.notes(difference)),
        ]
    cut = len(difference.nodes) > MOST_NODES
    by_node = f"By node, the first {MOST_NODES} of {len(difference.nodes)}" if cut else "By node"
    return [
        *_tables("By category", [row for _, row in difference_tables.categories(difference)], difference),
        *_tables("By operator", difference.operators[:MOST_OPERATORS], difference),
        *_tables(by_node, difference.nodes[:MOST_NODES], difference),
        Pairs(rows=difference_words.notes(difference)),
    ]


def why(difference: ProfileDifference) -> Section:
    """Return the difference between two profiles as a section for the page of another verb's result."""
    return Section(title="Where the difference lies", note=NOTE, blocks=tables_and_notes(difference))


def nodes(difference: ProfileDifference, most: int) -> list[Block]:
    """Return only the table of the ``most`` nodes with the largest differences."""
    return _tables("Nodes that changed most", difference.nodes[:most], difference)


def _tables(title: str, rows: Sequence[DifferenceRow], difference: ProfileDifference) -> list[Block]:
    """Return a table with one bar per row, and a fold with the table of the rows that are within noise."""
    unit = difference_tables.unit(difference)
    axis = _axis(rows, unit)
    certain = [row for row in rows if not difference_tables.within_noise(row)]
    noise = [row for row in rows if difference_tables.within_noise(row)]
    folded = [_table("", noise, axis, unit)] if noise else []
    return [
        _table(title, certain, axis, unit),
        Fold(title=f"{title}: {len(noise)} within noise", blocks=folded),
    ]


def _table(title: str, rows: Sequence[DifferenceRow], axis: Axis, unit: TimeUnit) -> Table:
    columns = [
        Column("name", "name"),
        Column("", "chart", axis=axis, ends=("less", "more")),
        Column("difference", "text"),
    ]
    return table(columns, [_row(row, unit) for row in rows], title=title)


def _axis(rows: Sequence[DifferenceRow], unit: TimeUnit) -> Axis:
    """Return a linear axis that includes zero and, up to twice the largest difference, the intervals."""
    values = [row.difference_ns for row in rows]
    limit = 2 * max((abs(v) for v in values), default=1.0) or 1.0
    for row in rows:
        values += [max(-limit, min(limit, v)) for v in (row.low_ns, row.high_ns) if v is not None]
    return signed_axis(values, lambda ns: unit.signed(ns) if ns else f"0 {unit.name}")


def _row(row: DifferenceRow, unit: TimeUnit) -> list[Cell]:
    sure = row.low_ns is not None and not difference_tables.within_noise(row)
    hue = "more" if row.difference_ns > 0 else "less"
    marks: list[Mark] = [Box(x0=0.0, x1=row.difference_ns, y0=0.22, y1=0.78, hue=hue, sure=sure)]
    if row.low_ns is not None and row.high_ns is not None:
        marks.append(Segment(x0=row.low_ns, x1=row.high_ns, y0=0.5, y1=0.5, hue="whisker"))
    a, b = (f"{unit.show(ns)} {unit.name}" if ns is not None else "absent" for ns in (row.a_ns, row.b_ns))
    span, work = difference_tables.interval(row, unit), difference_tables.work(row)
    change = f"{unit.signed(row.difference_ns)} {unit.name}{f' ({span})' if span else ''}"
    return [
        Cell(row.name, difference_tables.beneath(row)),
        Cell(change, marks=tuple(marks)),
        Cell(change, f"{a} → {b}{f'; work: {work}' if work else ''}", "strong"),
    ]
