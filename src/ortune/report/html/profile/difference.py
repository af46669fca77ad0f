"""Where the time went: B minus A, by category, operator and node."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ortune.records import DifferenceRow, ProfileDifference
from ortune.report import difference_words as words
from ortune.report.html import svg
from ortune.report.html.profile import Given
from ortune.report.profile_tables import Unit

ORDER = 10
TITLE = "The difference"
NOTE = (
    "B minus A in the mean run, the largest contribution first. Line: its interval, the wider the more rows "
    "stand beside each other; hollow: within noise, or nothing to tell it from noise."
)
MOST_NODES = 60
MOST_OPERATORS = 20


def content(given: Given) -> dict[str, object] | None:
    """Three tables with a bar each row, and what is on one side alone."""
    return None if given.result.against is None else of(given.result.against)


def of(found: ProfileDifference) -> dict[str, object]:
    """The tables of one difference; a comparison's page shows them too."""
    tables = [
        _table("By category", [row for _, row in words.categories(found)], found),
        _table("By operator", found.operators[:MOST_OPERATORS], found),
        _table(_title(found), found.nodes[:MOST_NODES], found),
    ]
    return {"tables": [table for table in tables if table is not None], "notes": words.notes(found)}


def nodes(found: ProfileDifference, most: int) -> dict[str, object] | None:
    """The nodes that differ most, alone."""
    return _table("Nodes that changed most", found.nodes[:most], found)


def _table(title: str, rows: Sequence[DifferenceRow], found: ProfileDifference) -> dict[str, object] | None:
    """A row each with its bar; what is within noise stands apart, to be unfolded. None without rows."""
    if not rows:
        return None
    unit, scale = words.unit(found), _scale(rows)
    told = [row for row in rows if not words.within_noise(row)]
    noise = [row for row in rows if words.within_noise(row)]
    return {
        "title": title,
        "rows": [_row(row, unit, scale) for row in told],
        "noise": [_row(row, unit, scale) for row in noise],
        "axis": _axis(scale, unit),
    }


def _title(found: ProfileDifference) -> str:
    cut = len(found.nodes) > MOST_NODES
    return f"By node, the first {MOST_NODES} of {len(found.nodes)}" if cut else "By node"


def _scale(rows: Sequence[DifferenceRow]) -> svg.Scale:
    """Linear, with zero; an interval may widen it to twice the largest difference."""
    values = [row.difference_ns for row in rows]
    limit = 2 * max((abs(v) for v in values), default=1.0) or 1.0
    for row in rows:
        values += [max(-limit, min(limit, v)) for v in (row.low_ns, row.high_ns) if v is not None]
    scale = svg.value_scale([min(0.0, *values), max(0.0, *values)])
    return scale if not scale.log else svg.Scale(low=-limit, high=limit, ticks=(0.0,))


def _axis(scale: svg.Scale, unit: Unit) -> Markup:
    ticks = [t for t in scale.ticks if 0.04 < scale.at(t) < 0.96]
    marks = [
        svg.tag(
            "text",
            unit.signed(t) if t else f"0 {unit.name}",
            x=svg.share(scale.at(t)),
            y=14,
            text_anchor="middle",
        )
        for t in ticks[:: 1 + len(ticks) // 5]
    ]
    return svg.tag("svg", *marks, class_="plot axis", aria_hidden="true", height=20)


def _row(row: DifferenceRow, unit: Unit, scale: svg.Scale) -> dict[str, object]:
    kind = "more" if row.difference_ns > 0 else "less"
    sure = row.low_ns is not None and not words.within_noise(row)
    zero, end = scale.at(0.0), scale.at(row.difference_ns)
    zero_at = svg.share(zero)
    marks = [
        svg.tag("line", x1=zero_at, x2=zero_at, y1="0", y2="100%", class_="zero"),
        svg.tag(
            "rect",
            x=svg.share(min(zero, end)),
            width=svg.share(abs(end - zero)),
            y="22%",
            height="56%",
            class_=f"bar {kind} {'sure' if sure else 'unsure'}",
        ),
    ]
    if row.low_ns is not None and row.high_ns is not None:
        ends = {"x1": svg.share(scale.at(row.low_ns)), "x2": svg.share(scale.at(row.high_ns))}
        marks.append(svg.tag("line", **ends, y1="50%", y2="50%", class_="whisker"))
    sides = [f"{unit.show(ns)} {unit.name}" if ns is not None else "not there" for ns in (row.a_ns, row.b_ns)]
    change, span = f"{unit.signed(row.difference_ns)} {unit.name}", words.interval(row, unit)
    return {
        "name": row.name,
        "beneath": words.beneath(row),
        "kind": kind,
        "change": change,
        "interval": span,
        "work": words.work(row),
        "a": sides[0],
        "b": sides[1],
        "plot": svg.picture(" ".join(part for part in (change, span) if part), marks),
    }
