"""One clock for all of an invocation: from the start of the process, or of the call from Python, to its answer."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

DELIVERY = 0.5
"""Of the time until the first process, what the answer takes after the last one: to be put into words, and stored."""


class Stopwatch:
    """How long an invocation has run; it stands still while another ortune measures, or what is made once is made.

    Args:
        began_s: When it began, on the monotonic clock; None is now.
    """

    def __init__(self, began_s: float | None = None) -> None:
        self._began_s = time.monotonic() if began_s is None else began_s

    @property
    def spent_s(self) -> float:
        """Seconds until now."""
        return time.monotonic() - self._began_s

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """What happens within costs nothing."""
        stopped_s = time.monotonic()
        try:
            yield
        finally:
            self._began_s += time.monotonic() - stopped_s


class Clock:
    """The time of one invocation against its budget."""

    def __init__(self, budget_s: float, watch: Stopwatch) -> None:
        self.budget_s, self._watch = budget_s, watch

    @property
    def spent_s(self) -> float:
        """Of the budget, until now."""
        return self._watch.spent_s

    @property
    def left_s(self) -> float:
        """Of the budget; below 0 beyond it."""
        return self.budget_s - self.spent_s
