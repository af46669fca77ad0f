"""Parts of a profile's tables: category names in words, and times that have one unit and add up as shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ortune.records import CategoryName

CATEGORIES: dict[CategoryName, str] = {
    "kernels": "computing, in kernels",
    "thread-wait": "waiting for other threads",
    "device-copies": "copies between devices",
    "device-wait": "waiting for the device",
    "casts-and-layout": "casts and layout changes",
    "shape-arithmetic": "shape arithmetic",
    "control-flow": "control flow",
    "between-nodes": "overhead between nodes",
    "device-idle": "device idle between kernels",
    "outside-run": "outside the run",
    "unexplained": "unexplained",
}


def category_words(name: str) -> str:
    """Return a category's name in words; other names are returned unchanged."""
    return next((text for key, text in CATEGORIES.items() if key == name), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeUnit:
    """A unit of time, with as many decimals as give the largest value of a table four significant digits.

    Attributes:
        name: "ms", "us", "s" or "ns".
        scale: Nanoseconds per unit.
        digits: Decimals.
    """

    name: str
    scale: float
    digits: int

    def show(self, ns: float) -> str:
        """Format a time in this unit, without the unit's name."""
        return f"{ns / self.scale:.{self.digits}f}"

    def signed(self, ns: float) -> str:
        """Format a difference of times in this unit with its sign, without the unit's name."""
        # A difference that rounds to zero has the sign "+", not "-".
        return f"{round(ns / self.scale, self.digits) or 0.0:+.{self.digits}f}"


def unit_of(largest_ns: float) -> TimeUnit:
    """Return the unit for a column of times whose largest time is ``largest_ns``."""
    size = abs(largest_ns)
    name, scale = next(((n, s) for n, s in (("s", 1e10), ("ms", 1e6), ("us", 1e3)) if size >= s), ("ns", 1.0))
    scale = 1e9 if name == "s" else scale  # milliseconds are used up to ten seconds
    whole = len(str(int(size / scale)))
    return TimeUnit(name=name, scale=scale, digits=min(3, max(0, 4 - whole)))


def apportion(parts: Sequence[float], digits: int) -> list[float]:
    """Round the parts to ``digits`` decimals so that they add up to their rounded sum.

    The parts with the largest remainders are rounded up.
    """
    steps = 10**digits
    down = [math.floor(part * steps) for part in parts]
    left = round(sum(parts) * steps) - sum(down)
    took = sorted(range(len(parts)), key=lambda i: down[i] - parts[i] * steps)
    for i in took[: max(0, left)]:
        down[i] += 1
    return [number / steps for number in down]
