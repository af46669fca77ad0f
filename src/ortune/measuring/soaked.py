"""Converts the memory of soaked processes to series for statistics, and to records."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ortune.measuring.soaking import ProcessMemory
from ortune.records import GrowthFigure
from ortune.stats import soak as soaks
from ortune.stats.growth import Series


def settled_call(soaked: Sequence[ProcessMemory]) -> float:
    """Return the number of calls after which every process had seen all of its sizes."""
    return float(
        max((step.first_call for each in soaked if each.done for step in each.done.steps), default=0)
    )


def was_called(soaked: ProcessMemory) -> bool:
    """Return whether a process has made a call."""
    return any(point.calls for point in soaked.points)


def first_bytes(soaked: ProcessMemory) -> int:
    """Return a process's memory in bytes after its first turn with calls."""
    return next(point.held_bytes or 0 for point in soaked.points if point.calls)


def as_series(soaked: ProcessMemory) -> soaks.SoakSeries:
    """Return the memory of a process after each turn with calls."""
    points = [point for point in soaked.points if point.calls]
    calls = np.array([point.calls for point in points], dtype=np.float64)
    used = [point.used_bytes for point in points]
    done = soaked.done
    returned = None
    if done is not None and done.idle_bytes is not None and done.trimmed_bytes is not None:
        returned = float(done.idle_bytes - done.trimmed_bytes)
    return soaks.SoakSeries(
        held=Series(
            calls=calls, held_bytes=np.array([point.held_bytes for point in points], dtype=np.float64)
        ),
        used=None if None in used else Series(calls=calls, held_bytes=np.array(used, dtype=np.float64)),
        first_bytes=float(first_bytes(soaked)),
        returned_bytes=returned,
    )


def growth_figure(judged: soaks.Judged, recreate: int) -> GrowthFigure:
    """Return the growth as a record; ``recreate`` is the number of calls per session, or 0 if sessions are kept."""
    found = judged.growth
    per_call = found.per_call or 0.0
    undecided = found.trend == "undecided"
    return GrowthFigure(
        of="used" if judged.of_used else "held",
        per_1000_calls=1000 * per_call,
        low=1000 * found.low if math.isfinite(found.low) else None,
        high=1000 * found.high if math.isfinite(found.high) else None,
        per_session=recreate * per_call if recreate else None,
        p=found.p,
        n_changes=found.n_changes,
        from_call=found.from_call,
        why=found.why if undecided else "",
    )
