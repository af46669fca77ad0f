"""Charts as data: axes, and marks in data units. Only HTML pages draw charts.

Hues are names that pages map to colours. Shape repeats the meaning of colour: filled marks are certain, hollow or
dotted marks uncertain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

_UP = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
FACTORS = (1, *_UP, *(1 / f for f in _UP))
CHANGES = (1, *_UP, 0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.5, 0.2, 0.1)
"""Axis steps: round factors above 1, and below 1 the factors that are round as a change in percent."""
NARROWEST = 0.03
"""Fraction of the axis at each end that has no ticks, because a label would not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A mapping of a range of values to the unit interval, linear or logarithmic.

    Attributes:
        low, high: Values at 0 and at 1.
        ticks: Pairs of a value within the range and its label; "" for a line without a label.
        strong: Value of the emphasized tick; None for none.
    """

    low: float = 0.0
    high: float = 1.0
    log: bool = False
    ticks: tuple[tuple[float, str], ...] = ()
    strong: float | None = None

    def at(self, value: float) -> float:
        """Return the position of a value on the axis, clamped to 0 and 1."""
        if self.log:
            place = math.log(max(value, 1e-300) / self.low) / math.log(self.high / self.low)
        else:
            place = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, place))

    def holds(self, value: float) -> bool:
        """Return whether a value is within the range."""
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A filled rectangle in a chart, in data coordinates.

    Attributes:
        text: Label, cut off if it does not fit.
        about: Tooltip.
    """

    x0: float
    x1: float
    y0: float = 0.0
    y1: float = 1.0
    hue: str = ""
    sure: bool = True
    text: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A point with a label."""

    x: float
    y: float = 0.5
    hue: str = ""
    radius_px: float = 3.0
    text: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A straight line in a chart from (x0, y0) to (x1, y1), in data coordinates."""

    x0: float
    x1: float
    y0: float = 0.0
    y1: float = 1.0
    hue: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalMark:
    """A point with its horizontal interval; an end that is None is unbounded."""

    middle: float
    low: float | None
    high: float | None
    hue: str = ""
    sure: bool = False
    y: float = 0.5


Mark = Box | Dot | Segment | IntervalMark


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A drawing of marks between two axes.

    Attributes:
        alt: Description in words; a terminal shows only this description.
        height_px: Height in pixels. The chart is as wide as the page's column.
        x, y: Axes, with ticks drawn as lines.
        legend: Pairs of a hue and its meaning.
    """

    alt: str
    marks: tuple[Mark, ...]
    height_px: int
    x: Axis = Axis()
    y: Axis = Axis()
    title: str = ""
    legend: tuple[tuple[str, str], ...] = ()


def factor_axis(
    values: Sequence[float],
    words: Callable[[float], str],
    *,
    slowest: float = 0.6,
    steps: Sequence[float] = FACTORS,
) -> Axis:
    """Return a logarithmic axis of factors around 1, with a margin.

    Values below ``slowest`` are outside of the axis, because a single very slow plan would compress all others.

    Args:
        values: Values that the axis should include.
        words: Formats the label of a tick.
        slowest: Lowest value of the axis.
        steps: Factors that may be labelled.
    """
    low, high = min([1 / 1.02, *values]), max([1.02, *values])
    low = max(low, slowest)
    # 6 % of the length of the logarithmic axis at each end.
    margin = (high / low) ** 0.06
    low, high = low / margin, high * margin
    ticks = tuple((t, words(t)) for t in _spaced(steps, low, high))
    return Axis(low=low, high=high, log=True, ticks=ticks, strong=1.0)


def _spaced(ticks: Sequence[float], low: float, high: float) -> tuple[float, ...]:
    """Return the ticks between ``low`` and ``high`` that can be labelled without overlap, always including 1."""
    width = math.log(high / low)
    chosen = [1.0]
    # From the ends inwards, since the outermost labels show the range of the axis. A label takes 0.17 of the
    # width.
    for tick in sorted(ticks, key=lambda t: -abs(math.log(t))):
        near = min(abs(math.log(tick / c)) for c in chosen)
        inside = tick > low and NARROWEST < math.log(tick / low) / width < 1 - NARROWEST
        if inside and near > 0.17 * width:
            chosen.append(tick)
    return tuple(sorted(chosen))


def value_axis(values: Sequence[float], words: Callable[[float], str]) -> Axis:
    """Return an axis of times or sizes, logarithmic if the largest value is more than four times the smallest."""
    low, high = min(values), max(values)
    if low > 0 and high > 4 * low:
        steps = [n * 10.0**e for e in range(-2, 16) for n in (1, 2, 5)]
        low, high = low / 1.1, high * 1.1
        inside = [s for s in steps if low <= s <= high]
        return _labelled(low, high, inside[:: 1 + len(inside) // 5], words, log=True)
    margin = 0.06 * (high - low) or 0.01 * abs(high) or 1.0
    low, high = low - margin, high + margin
    return _labelled(low, high, _round_steps(low, high), words)


def zero_axis(high: float, words: Callable[[float], str], unit: float = 1.0) -> Axis:
    """Return an axis from zero, with ticks at round multiples of the unit."""
    ticks = [unit * n for n in _round_steps(0.0, high * 1.02 / unit)]
    return _labelled(0.0, high * 1.04, ticks, words)


def signed_axis(values: Sequence[float], words: Callable[[float], str]) -> Axis:
    """Return a linear axis that includes zero, with an emphasized tick at zero."""
    low, high = min([0.0, *values]), max([0.0, *values])
    margin = 0.06 * (high - low) or 1.0
    low, high = low - margin, high + margin
    axis = Axis(low=low, high=high)
    ticks = [t for t in _round_steps(low, high) if not t or 0.04 < axis.at(t) < 0.96]
    return Axis(low=low, high=high, ticks=tuple((t, words(t)) for t in ticks), strong=0.0)


def decade_axis(values: Sequence[float], words: Callable[[float], str]) -> Axis:
    """Return a logarithmic axis of whole decades, at least two, that includes all positive values."""
    good = [v for v in values if v > 0]
    low, high = 10.0 ** _exponent(min(good)), 10.0 ** (_exponent(max(good)) + 1)
    if high / low < 100:
        low /= 10
    n = _exponent(high / low * 1.0001)
    ticks = [low * 10**i for i in range(n + 1)]
    return _labelled(low, high, ticks[:: 1 + len(ticks) // 8], words, log=True)


def _exponent(value: float) -> int:
    # From the formatted number, since the floor of a logarithm may be one too low at a power of ten.
    return int(f"{value:e}".partition("e")[2])


def _labelled(
    low: float, high: float, ticks: Sequence[float], words: Callable[[float], str], *, log: bool = False
) -> Axis:
    return Axis(low=low, high=high, log=log, ticks=tuple((t, words(t)) for t in ticks))


def _round_steps(low: float, high: float) -> list[float]:
    """Return about four round numbers (steps of 1, 2 or 5 times a power of ten) within a range."""
    # From 0 to 10 a quarter is 2.5, and the next round step is 5: ticks at 0, 5 and 10.
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * n for n in (1, 2, 5, 10) if power * n >= rough * 0.999)
    first = math.ceil(low / step)
    return [step * n for n in range(first, first + 12) if step * n <= high]


def order_axis(n: int, first: str, last: str) -> Axis:
    """Return an axis of ``n`` ordered items, with labels for the first and the last item."""
    return Axis(low=0.0, high=float(n), ticks=((0.0, first), (float(n), last)))


def ordered_dots(values: Sequence[float | None], hue: str, *, joined: bool = False) -> tuple[Mark, ...]:
    """Return one dot per value, in the order of an ``order_axis``; a value of None leaves a gap."""
    spots = [(i + 0.5, value) for i, value in enumerate(values)]
    marks: list[Mark] = []
    for (x0, y0), (x1, y1) in pairwise(spots) if joined else ():
        if y0 is not None and y1 is not None:
            marks.append(Segment(x0=x0, x1=x1, y0=y0, y1=y1, hue=f"join {hue}"))
    radius_px = 3.5 if len(values) <= 40 else 2.0
    return (*marks, *(Dot(x=x, y=y, hue=hue, radius_px=radius_px) for x, y in spots if y is not None))


def bounds_of(ratio_low: float | None, ratio_high: float | None) -> tuple[float | None, float | None]:
    """Convert an interval of time ratios to an interval of speed-up factors; None is an unbounded end."""
    return 1 / ratio_high if ratio_high else None, 1 / ratio_low if ratio_low else None
