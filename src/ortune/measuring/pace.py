"""Limits work between trials: a unit begins only if it fits in the time left."""

from __future__ import annotations

import bisect
from collections.abc import Callable

from ortune import monotonic

_STOPPED_ONE_OF = 20  # number of units of which the longest is ignored


class Pace:
    """Limits work between trials by units (a rule, a rewrite): a unit begins only if it fits in the time left.

    A unit is expected to take as long as the longest earlier unit. Of twenty units, the slowest is ignored, since
    another program may have delayed it.

    Attributes:
        left_out: Names of units that did not fit, in order.

    Args:
        left_s: Returns the seconds left of the budget for all units.
        least_s: Minimum seconds for all units, if less is left.
        once: Name of a unit that is done once for all others, whose duration does not predict that of other units.
        once_s: Expected seconds of that unit.
    """

    def __init__(
        self, left_s: Callable[[], float], least_s: float = 0.0, once: str = "", once_s: float = 0.0
    ) -> None:
        self._of_budget_s, self._least_s, self._once, self._once_s = left_s, least_s, once, once_s
        self._began_s = monotonic.now_s()
        self._took_s: list[float] = []  # sorted
        self._inside = ""
        self.left_out: list[str] = []

    @property
    def left_s(self) -> float:
        """Seconds left for further units."""
        return max(self._of_budget_s(), self._least_s - sum(self._took_s))

    def begins(self, unit: str) -> bool:
        """End the previous unit, and return whether the next may begin; if not, add its name to ``left_out``."""
        now_s = monotonic.now_s()
        if self._inside and self._inside != self._once:
            bisect.insort(self._took_s, now_s - self._began_s)
        # A unit that is done once for all (reading every rule) does not predict the next one, so it was omitted above.
        n = len(self._took_s)
        longest_s = self._took_s[n - 1 - n // _STOPPED_ONE_OF] if n else 0.0
        begins = self.left_s > (self._once_s if unit and unit == self._once else longest_s)
        self._began_s, self._inside = now_s, unit if begins else ""
        if not begins:
            self.left_out.append(unit)
        return begins

    def needed_s(self, budget_s: float, share: float = 1.0) -> float:
        """Return a budget in seconds in which the skipped units also fit, which is more than ``budget_s``.

        Args:
            budget_s: The budget that did not suffice; without a budget, the time spent.
            share: Fraction of the budget for such work.
        """
        # Each is expected to take the average time of the others; if none began, all of them take as long as everything
        # else, since nothing better is known.
        more_s = sum(self._took_s) / max(1, len(self._took_s)) * len(self.left_out)
        return budget_s + (more_s / share or budget_s)
