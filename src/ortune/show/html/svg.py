"""Charts as inline SVG drawings on a page.

A drawing has no viewBox: horizontal positions are percentages and sizes are pixels, so it stretches with its column
while text, strokes and marks keep their size on phones and in print. Colours come from the style sheet's classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from markupsafe import Markup, escape

from ortune.printable import visible
from ortune.show.chart import NARROWEST, Axis, Box, Chart, Dot, IntervalMark, Mark, Segment
from ortune.show.document import Cell, Column

WHOLE = Axis()
LEAST_TEXT = 0.02
"""Minimum width of a box that shows its text, as a fraction of the chart's width."""


def _tag(name: str, *children: Markup | str, **attributes: str | float) -> Markup:
    """Return an SVG element; underscores in attribute names become hyphens, and values are escaped."""
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_safe(_number(value))}"' for key, value in attributes.items()
    )
    inner = Markup("").join(child if isinstance(child, Markup) else _safe(child) for child in children)
    return Markup(f"<{name}{pairs}>{inner}</{name}>")


def _safe(text: str) -> Markup:
    return escape(visible(text))


def _picture(alt: str, marks: Iterable[Markup], *, height: int | None = None) -> Markup:
    """Return a drawing with its alternative text; ``height`` is in pixels, or None to fill the parent element."""
    size = {} if height is None else {"height": height}
    return _tag("svg", *marks, class_="plot", role="img", aria_label=alt, **size)


def _number(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def _share(value: float) -> str:
    """Return a fraction as a CSS percentage: 0.5 is "50%"."""
    return f"{_number(100 * value)}%"


def cell(content: Cell, column: Column) -> Markup:
    """Return the drawing of a cell in a column of charts."""
    axis = column.axis or WHOLE
    return _picture(content.text, [*_lines(axis, across=True), *_marks(content.marks, axis, WHOLE)])


def head(column: Column) -> Markup:
    """Return the axis labels of a column of charts; hidden from screen readers, as each row contains its numbers."""
    return _below(column.axis) if column.axis else Markup("")


def bar(value: float) -> Markup:
    """Return a bar whose length is a fraction, clipped to 0 to 1; adjacent cells contain the same number."""
    mark = _tag(
        "rect", x="0", width=_share(max(0.0, min(1.0, value))), y="3", height="14", class_="box time sure"
    )
    return _tag("svg", mark, class_="plot", aria_hidden="true", height=20)


def chart(block: Chart) -> Markup:
    """Return a chart with axis labels on the left and below."""
    marks = [
        *_lines(block.y, across=False),
        *_lines(block.x, across=True),
        *_marks(block.marks, block.x, block.y),
    ]
    side = _tick_labels(block.y, block.height_px) if block.y.ticks else Markup("")
    rows = [
        _tag("div", side, _picture(block.alt, marks, height=block.height_px), class_="chart"),
    ]
    if block.x.ticks:
        blank = _tag("span", class_="side", aria_hidden="true") if side else Markup("")
        rows.append(_tag("div", blank, _below(block.x), class_="chart below"))
    return Markup("").join(rows)


def _below(axis: Axis) -> Markup:
    marks = []
    for value, text in axis.ticks:
        x = axis.at(value)
        anchor = "start" if x < NARROWEST else "end" if x > 1 - NARROWEST else "middle"
        marks.append(_tag("text", text, x=_share(x), y="14", text_anchor=anchor))
    return _tag("svg", *marks, class_="plot axis", aria_hidden="true", height=20)


def _tick_labels(axis: Axis, height: int) -> Markup:
    marks = [
        _tag("text", text, x="100%", y=_share(1 - axis.at(value)), dy="0.35em", text_anchor="end")
        for value, text in axis.ticks
    ]
    return _tag("svg", *marks, class_="plot side", aria_hidden="true", height=height)


def _lines(axis: Axis, *, across: bool) -> Iterator[Markup]:
    """Yield a grid line at each tick: vertical for a horizontal axis (``across``), horizontal for a vertical one."""
    for value, _ in axis.ticks:
        at = axis.at(value)
        kind = "strong" if value == axis.strong else "grid"
        places = (
            {"x1": _share(at), "x2": _share(at), "y1": "0", "y2": "100%"}
            if across
            else {"x1": "0", "x2": "100%", "y1": _share(1 - at), "y2": _share(1 - at)}
        )
        yield _tag("line", **places, class_=kind)


def _marks(marks: Iterable[Mark], x: Axis, y: Axis) -> Iterator[Markup]:
    for mark in marks:
        match mark:
            case Box():
                yield _box(mark, x, y)
            case Dot():
                yield from _dot(mark, x, y)
            case Segment():
                ends = {"x1": _share(x.at(mark.x0)), "x2": _share(x.at(mark.x1))}
                heights = {"y1": _share(1 - y.at(mark.y0)), "y2": _share(1 - y.at(mark.y1))}
                yield _tag("line", **ends, **heights, class_=f"line {mark.hue}")
            case IntervalMark():
                yield from _interval(mark, x, y)


def _about(text: str) -> list[Markup]:
    return [_tag("title", text)] if text else []


def _box(mark: Box, x: Axis, y: Axis) -> Markup:
    left, right = sorted((x.at(mark.x0), x.at(mark.x1)))
    low, high = sorted((y.at(mark.y0), y.at(mark.y1)))
    place = {
        "x": _share(left),
        "width": _share(right - left),
        "y": _share(1 - high),
        "height": _share(high - low),
    }
    kind = f"box {mark.hue} {'sure' if mark.sure else 'unsure'}"
    if not mark.text or right - left < LEAST_TEXT:
        return _tag("rect", *_about(mark.about), **place, class_=kind)
    whole = _tag("rect", x="0", y="0", width="100%", height="100%", class_=kind)
    # A nested drawing clips its text.
    text = _tag("text", mark.text, x="5", y="50%", dy="0.35em")
    return _tag("svg", *_about(mark.about), whole, text, **place, class_="clip")


def _dot(mark: Dot, x: Axis, y: Axis) -> Iterator[Markup]:
    cx, cy = _share(x.at(mark.x)), _share(1 - y.at(mark.y))
    yield _tag("circle", *_about(mark.about), cx=cx, cy=cy, r=mark.radius_px, class_=f"dot {mark.hue}")
    if mark.text:
        yield _tag("text", mark.text, x=cx, y=cy, dy="0.35em", text_anchor="middle", class_="rank")


def _interval(mark: IntervalMark, x: Axis, y: Axis) -> Iterator[Markup]:
    """Yield the lines of an interval: solid if the interval is certain, else dotted; arrows for ends off the axis."""
    low, high, at = mark.low, mark.high, _share(1 - y.at(mark.y))
    kind = f"{mark.hue} {'sure' if mark.sure else 'unsure'}"
    start, end = x.low if low is None else low, x.high if high is None else high
    if end > x.low and start < x.high:
        ends = {"x1": _share(x.at(start)), "x2": _share(x.at(end))}
        yield _tag("line", **ends, y1=at, y2=at, class_=f"span {kind}")
    if low is None or low < x.low:
        yield _tag("text", "\u25c2", x="0", y=at, dy="0.35em", class_=f"tip {mark.hue}")
    if high is None or high > x.high:
        yield _tag("text", "\u25b8", x="100%", y=at, dy="0.35em", text_anchor="end", class_=f"tip {mark.hue}")
    if x.holds(mark.middle):
        yield _tag(
            "circle", cx=_share(x.at(mark.middle)), cy=at, r=5 if mark.sure else 4, class_=f"point {kind}"
        )
