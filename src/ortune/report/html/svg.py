"""Static drawings, inline in the page.

A drawing has no viewBox: places across are percentages and sizes are pixels, so that it stretches with its column
while text, strokes and marks keep their size on a phone and on paper. Colours come from the style sheet's classes;
shape (filled or hollow, solid or dotted) says the same as colour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup, escape

from ortune.printable import visible

_UP = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
FACTORS = (1, *_UP, *(1 / f for f in _UP))
CHANGES = (1, *_UP, 0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.5, 0.2, 0.1)
"""Round factors, and factors that are round as a change in percent."""


def tag(name: str, *children: Markup | str, **attributes: str | float) -> Markup:
    """One element; attribute names are written with underscores, every value is escaped."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_safe(_number(value))}"' for key, value in attributes.items()
    )
    inner = Markup("").join(child if isinstance(child, Markup) else _safe(child) for child in children)
    return Markup(f"<{name}{written}>{inner}</{name}>")


def _safe(text: str) -> Markup:
    return escape(visible(text))


def picture(alt: str, marks: Iterable[Markup], *, height: int | None = None, kind: str = "") -> Markup:
    """A drawing with its text alternative; ``height`` in pixels, None fills its box."""
    size = {} if height is None else {"height": height}
    return tag("svg", *marks, class_=f"plot {kind}".strip(), role="img", aria_label=alt, **size)


def _number(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def share(value: float) -> str:
    """A place as a percentage: 0.5 is "50%"."""
    return f"{_number(100 * value)}%"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A range of values on the unit interval, linear or logarithmic.

    Attributes:
        low, high: What lies at 0 and at 1.
        ticks: Values to label, within the range.
    """

    low: float
    high: float
    log: bool = False
    ticks: tuple[float, ...] = ()

    def at(self, value: float) -> float:
        """Where the value lies, held within 0 and 1."""
        if self.log:
            place = math.log(max(value, 1e-300) / self.low) / math.log(self.high / self.low)
        else:
            place = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, place))

    def holds(self, value: float) -> bool:
        """Whether the value lies within the range."""
        return self.low <= value <= self.high


def factor_scale(values: Sequence[float], *, slowest: float = 0.6, steps: Sequence[float] = FACTORS) -> Scale:
    """A logarithmic scale of factors around 1, with a margin.

    What lies below ``slowest`` is left outside: one hopeless plan must not press all others together.

    Args:
        values: What the scale should hold.
        slowest: The scale's lowest value.
        steps: Factors that may be labelled.
    """
    low, high = min([1 / 1.02, *values]), max([1.02, *values])
    low = max(low, slowest)
    margin = (high / low) ** 0.06
    low, high = low / margin, high * margin
    return Scale(low=low, high=high, log=True, ticks=_spaced(steps, low, high, keep=1.0))


def _spaced(ticks: Sequence[float], low: float, high: float, keep: float) -> tuple[float, ...]:
    """As many of the ticks as can be labelled side by side; ``keep`` always stays."""
    width = math.log(high / low)
    chosen = [keep]
    for tick in sorted(ticks, key=lambda t: -abs(math.log(t / keep))):
        near = min(abs(math.log(tick / c)) for c in chosen)
        inside = 0.03 < math.log(max(tick / low, 1e-9)) / width < 0.97 if tick > low else False
        if inside and near > 0.17 * width:
            chosen.append(tick)
    return tuple(sorted(chosen))


def value_scale(values: Sequence[float]) -> Scale:
    """A scale of times or sizes; logarithmic where the largest is more than four times the smallest."""
    low, high = min(values), max(values)
    if low > 0 and high > 4 * low:
        steps = [n * 10.0**e for e in range(-2, 16) for n in (1, 2, 5)]
        low, high = low / 1.1, high * 1.1
        ticks = tuple(s for s in steps if low <= s <= high)
        return Scale(low=low, high=high, log=True, ticks=ticks[:: 1 + len(ticks) // 5])
    margin = 0.06 * (high - low) or 0.01 * abs(high) or 1.0
    low, high = low - margin, high + margin
    step = _step((high - low) / 4)
    first = math.ceil(low / step)
    return Scale(
        low=low,
        high=high,
        ticks=tuple(step * n for n in range(first, first + 12) if step * n <= high),
    )


def _step(rough: float) -> float:
    """The round number (1, 2 or 5 times a power of ten) next above."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * n for n in (1, 2, 5, 10) if power * n >= rough * 0.999)


def gridlines(scale: Scale, *, strong: float | None = None, down_to: str = "100%") -> list[Markup]:
    """Vertical lines at the ticks; the one at ``strong`` stands out."""
    return [
        tag("line", x1=share(x), x2=share(x), y1="0", y2=down_to, class_="zero" if t == strong else "grid")
        for t in scale.ticks
        for x in [scale.at(t)]
    ]


def labels(scale: Scale, texts: Sequence[str], *, y: float = 14) -> list[Markup]:
    """The ticks' labels in a row across."""
    return [
        tag("text", text, x=share(scale.at(t)), y=y, text_anchor="middle")
        for t, text in zip(scale.ticks, texts, strict=True)
    ]


def interval(
    scale: Scale,
    middle: float,
    low: float | None,
    high: float | None,
    *,
    sure: bool,
    kind: str,
    y: str = "50%",
) -> list[Markup]:
    """A point with its interval: filled and solid where sure, hollow and dotted where exploratory.

    An end that is None is open. What goes on outside the scale ends in an arrow at the edge.
    """
    style = f"{kind} {'sure' if sure else 'unsure'}"
    start, end = scale.low if low is None else low, scale.high if high is None else high
    marks = []
    if end > scale.low and start < scale.high:
        ends = {"x1": share(scale.at(start)), "x2": share(scale.at(end))}
        marks.append(tag("line", **ends, y1=y, y2=y, class_=f"span {style}"))
    if low is None or low < scale.low:
        marks.append(tag("text", "\u25c2", x="0", y=y, dy="0.35em", class_=f"tip {kind}"))
    if high is None or high > scale.high:
        marks.append(
            tag("text", "\u25b8", x="100%", y=y, dy="0.35em", text_anchor="end", class_=f"tip {kind}")
        )
    if scale.holds(middle):
        marks.append(
            tag("circle", cx=share(scale.at(middle)), cy=y, r=5 if sure else 4, class_=f"point {style}")
        )
    return marks


def dots(scale: Scale, values: Sequence[float], kind: str, *, height: int = 34) -> list[Markup]:
    """One dot a value on a line; neighbours are set apart up and down so that each can be seen."""
    offsets = (0, -6, 6, -3, 3, -9, 9)
    return [
        tag(
            "circle",
            cx=share(scale.at(v)),
            cy=height / 2 + offsets[i % len(offsets)],
            r=3,
            class_=f"dot {kind}",
        )
        for i, v in enumerate(values)
    ]


def series(scale: Scale, values: Sequence[float | None], kind: str, *, joined: bool = True) -> list[Markup]:
    """Values in order from left to right, a value's place up the drawing by the scale; None is a gap."""
    n = len(values)
    spots = [
        None if v is None else (share((i + 0.5) / n), share(1 - scale.at(v))) for i, v in enumerate(values)
    ]
    marks = []
    if joined:
        for a, b in pairwise(spots):
            if a and b:
                marks.append(tag("line", x1=a[0], y1=a[1], x2=b[0], y2=b[1], class_=f"join {kind}"))
    radius = 3.5 if n <= 40 else 2
    marks += [tag("circle", cx=s[0], cy=s[1], r=radius, class_=f"dot {kind}") for s in spots if s]
    return marks


def level(scale: Scale, value: float, kind: str) -> Markup:
    """A horizontal line at a value."""
    y = share(1 - scale.at(value))
    return tag("line", x1="0", x2="100%", y1=y, y2=y, class_=kind)


def band(scale: Scale, low: float, high: float, kind: str) -> Markup:
    """A horizontal band from one value to another."""
    top, bottom = 1 - scale.at(high), 1 - scale.at(low)
    return tag("rect", x="0", width="100%", y=share(top), height=share(max(0.0, bottom - top)), class_=kind)


def side_labels(scale: Scale, texts: Sequence[str], *, height: int) -> Markup:
    """The labels of a vertical scale, as a drawing of its own that stays beside the stretching one."""
    marks = [
        tag("text", text, x="100%", y=share(1 - scale.at(t)), dy="0.35em", text_anchor="end")
        for t, text in zip(scale.ticks, texts, strict=True)
    ]
    return tag("svg", *marks, class_="plot side", aria_hidden="true", height=height)


def axis(scale: Scale, words: Callable[[float], str]) -> Markup:
    """The labels of a column of drawings; hidden from who cannot see them, as every row says its numbers."""
    marks = labels(scale, [words(t) for t in scale.ticks])
    return tag("svg", *marks, class_="plot axis", aria_hidden="true", height=20)
