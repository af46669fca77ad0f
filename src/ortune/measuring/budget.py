"""The time of one invocation: spent, reserved for later steps, and left.

The search counts in trials and knows no seconds; a budget converts between both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

MARGIN = 1.2
"""Ratio of a suggested budget to the duration of its steps, since durations vary."""


def _nothing_spent() -> int:
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The time of one invocation, or the part of this time that some steps may take.

    There are two clocks. Decisions use the time of the last journalled step (``spent_ns``), so that a resumed session
    repeats them. Limits of steps that are not repeated use the time until now (``elapsed_ns``).

    Attributes:
        total_s: The user's budget in seconds; infinite without one.
        reserved_s: Seconds that are reserved for later steps: writing the result, profiles, separate starts.
        spent_ns: Returns the nanoseconds until the end of the last journalled step.
        elapsed_ns: Returns the nanoseconds until now.
    """

    total_s: float = math.inf
    reserved_s: float = 0.0
    spent_ns: Callable[[], float] = _nothing_spent
    elapsed_ns: Callable[[], float] = _nothing_spent

    def reserve(self, seconds: float) -> Budget:
        """Return this budget with additional seconds reserved for later steps."""
        return replace(self, reserved_s=self.reserved_s + seconds)

    def share(self, share: float) -> Budget:
        """Return the budget of a step that may take a fraction of the time left from now."""
        return self if math.isinf(self.total_s) else self.reserve((1 - share) * self.left_s)

    @property
    def end_s(self) -> float:
        """Seconds from the beginning until the reserved time begins."""
        return self.total_s - self.reserved_s

    @property
    def end_ns(self) -> float:
        """Nanoseconds from the beginning until the reserved time begins."""
        return 1e9 * self.end_s

    @property
    def spent_s(self) -> float:
        """Seconds until the end of the last journalled step."""
        return 1e-9 * self.spent_ns()

    @property
    def left_s(self) -> float:
        """Seconds left after the last journalled step; negative if the budget is exceeded."""
        return self.end_s - self.spent_s

    @property
    def left_ns(self) -> float:
        """Nanoseconds left after the last journalled step; negative if the budget is exceeded."""
        return self.end_ns - self.spent_ns()

    @property
    def running(self) -> Budget:
        """This budget by the clock that includes the time until now, for steps that resumed sessions do not repeat."""
        return replace(self, spent_ns=self.elapsed_ns)

    def trials(self, trial_ns: float) -> float:
        """Return the number of trials of a given duration that fit in the time left."""
        return self.left_ns / trial_ns

    def holds(self, n_trials: float, trial_ns: float) -> bool:
        """Return whether a number of trials fits in the time left."""
        return n_trials * trial_ns <= self.left_ns

    def needed_s(self, n_trials: float, trial_ns: float, *, before_s: float | None = None) -> float:
        """Return the budget in seconds that a number of trials needs, including the time spent and reserved.

        Args:
            n_trials: The number of trials.
            trial_ns: Duration of a trial.
            before_s: Seconds spent before the first trial; None for the seconds spent until now.
        """
        before_s = self.spent_s if before_s is None else before_s
        return before_s + 1e-9 * n_trials * trial_ns + self.reserved_s

    @staticmethod
    def enough_s(needed_s: float) -> int:
        """Return the budget to suggest for steps of ``needed_s`` seconds: with a margin, in whole tens of seconds."""
        return math.ceil(MARGIN * needed_s / 10) * 10


UNLIMITED = Budget()
"""Budget for steps without a time limit."""
