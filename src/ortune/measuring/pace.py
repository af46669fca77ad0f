"""Work between trials, in units: none begins that the time left does not hold."""

from __future__ import annotations

import bisect
from collections.abc import Callable

from ortune import monotonic

_STOPPED_ONE_OF = 20  # units, of which the longest is no measure of the next


class Pace:
    """Work between trials in units (a rule, a rewrite): none begins that the time left does not hold.

    A unit is expected to take as long as the longest before it: at this machine's speed, whatever else runs there. Of
    twenty, one is left out: a unit that another program stopped for a second does not stand for all others.

    Attributes:
        left_out: Units that did not fit, in order.

    Args:
        left_s: Gives the seconds that are left for them.
        least_s: What they may take together however little is left.
        once: A unit that is done once for all others, so its duration does not predict theirs.
        once_s: What that is expected to take.
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
        """Seconds that are left."""
        return max(self._of_budget_s(), self._least_s - sum(self._took_s))

    def begins(self, unit: str) -> bool:
        """Return whether a unit may begin; the one before it has ended by now."""
        now_s = monotonic.now_s()
        if self._inside and self._inside != self._once:
            bisect.insort(self._took_s, now_s - self._began_s)
        # What is done once for all (reading every rule, say) is no measure of the next, so it was left out above.
        n = len(self._took_s)
        longest_s = self._took_s[n - 1 - n // _STOPPED_ONE_OF] if n else 0.0
        begins = self.left_s > (self._once_s if unit and unit == self._once else longest_s)
        self._began_s, self._inside = now_s, unit if begins else ""
        if not begins:
            self.left_out.append(unit)
        return begins

    def needed_s(self, budget_s: float, share: float = 1.0) -> float:
        """Return a budget that holds what was left out, too; always more than the one that did not hold it.

        Args:
            budget_s: That one; what was spent, where there is no other.
            share: Of the budget, what such work may take.
        """
        # Each is expected to take what the others took on average; where none was begun, all of them together as long
        # as everything else: more is not known.
        more_s = sum(self._took_s) / max(1, len(self._took_s)) * len(self.left_out)
        return budget_s + (more_s / share or budget_s)
