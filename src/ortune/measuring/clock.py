"""The clock of an invocation, which runs from the start of the process or of the Python call to the result."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ortune import monotonic


class Stopwatch:
    """Elapsed time of an invocation; stopped while another ortune measures, and during one-time preparations.

    Args:
        began_s: Start time on the monotonic clock; None for now.
    """

    def __init__(self, began_s: float | None = None) -> None:
        self._began_s = monotonic.now_s() if began_s is None else began_s

    @property
    def spent_s(self) -> float:
        """Seconds since the start, without pauses."""
        return monotonic.now_s() - self._began_s

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the clock within a ``with`` block."""
        stopped_s = monotonic.now_s()
        try:
            yield
        finally:
            # The start moves forward by the pause, which takes the pause out of every later difference.
            self._began_s += monotonic.now_s() - stopped_s
