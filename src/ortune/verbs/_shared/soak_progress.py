"""The progress of processes that call a model for a long time."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.measuring.opening import Experiment
from ortune.records import SoakPoint
from ortune.show.numbers import memory


def show(opened: Experiment, of: str, points: Sequence[SoakPoint]) -> None:
    """Show the number of calls so far, and the memory of the largest process.

    Args:
        opened: The experiment.
        of: What each process is, in words; "" to show the calls of all processes together.
        points: The last point of each process.
    """
    calls = [point.calls for point in points] or [0]
    number = f"{max(calls):,} calls a {of}" if of else f"{sum(calls):,} calls"
    held_bytes = max((point.held_bytes or 0 for point in points), default=0)
    budget = opened.budget.running
    opened.watch.progress(f"{number}, {memory(held_bytes, 4)}", budget.spent_s, opened.budget.total_s)
