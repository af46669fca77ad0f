"""Tests whether the memory of processes grows with their calls: exact, on blocks of calls, robust to steps.

A process that keeps something for each call grows throughout a long run. One that keeps the largest size it has seen
grows in steps that become rare, and one whose allocator moves pages fluctuates. The calls of a process, after
the first calls, are therefore cut into blocks of equal length. Memory grows if it rises in most blocks, in late blocks
as in early blocks, and significantly (sign-flip test of the changes between blocks, which also holds if memory
wanders). It is level if even the upper end of the interval is small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ortune.stats.pairs import sign_flip, wilcoxon_interval

GROWING_P = 0.002
"""Significance level of the two-sided test for growth."""
LEAST_CHANGES = 10
"""Minimum number of changes between blocks, over all processes, for growth to be reported."""
BLOCKS = {1: 16, 2: 10, 3: 8}
"""Number of blocks per process, by the number of processes."""
LEAST_POINTS = 2
"""Minimum number of points per block; the median of the points is used."""
FIRST_PART = 1 / 3
"""Fraction of the calls at the start that is ignored, since first-time growth occurs there."""
LATER_PART = 1 / 2
"""Fraction of the calls that is ignored for processes that grew in a late step."""
MOSTLY = 0.6
"""Minimum fraction of blocks in which memory must rise."""
RISE_SHARE = 0.25
"""Minimum ratio of a change to the mean change for the change to count as a rise."""
WANDERS = -0.2
"""Correlation of successive changes above which memory wanders: about 0 then, -0.5 for independent noise per block."""
SLOWING = 0.5
"""Minimum ratio of growth in the last third of blocks to that in the first third for growth to be lasting."""
LEVEL_SHARE = 0.02
"""Fraction by which memory may grow over the blocks and still count as level."""
LEVEL_BYTES = 1 << 20
"""The same in bytes, for small processes."""
LEAST_RATE = 1e-5
"""Growth per call, as a fraction of the memory, that must be excluded before memory counts as level."""
LEAST_RATE_BYTES = 1024.0
"""The same in bytes, for small processes."""
GRANULE_BYTES = 256 << 10
"""Amount that an allocator requests from the system at once, which is the uncertainty of memory figures."""
LONGEST_FACTOR = 50.0
"""Maximum factor on the number of calls by which a longer soak is advised."""

Trend = Literal["growing", "level", "undecided"]
Why = Literal["", "few-calls", "steps", "slowing", "noise"]
"""Reason why a trend is undecided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Memory of one process over its calls.

    Attributes:
        calls: Calls made so far, at each point (n,), in order.
        held_bytes: Memory held at each point (n,).
    """

    calls: NDArray[np.float64]
    held_bytes: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Trend of the memory of processes after their first calls.

    Attributes:
        trend: The trend.
        why: Reason if the trend is undecided, else "".
        per_call: Bytes per call; None if there are too few points.
        low, high: 95 % interval of ``per_call``; infinite if unbounded.
        p: Two-sided p-value of the changes under the hypothesis that memory only wanders.
        n_changes: Number of changes between blocks, over all processes.
        from_call: Call after which the blocks begin.
        longer: Factor on the number of calls with which the trend would be decided; 1 if it is decided.
    """

    trend: Trend
    why: Why = ""
    per_call: float | None = None
    low: float = -math.inf
    high: float = math.inf
    p: float = 1.0
    n_changes: int = 0
    from_call: float = 0.0
    longer: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blocks:
    """Block medians of each process (processes, blocks), and the number of calls per block."""

    medians: NDArray[np.float64]
    calls: float
    from_call: float

    @property
    def changes(self) -> NDArray[np.float64]:
        """Changes between successive blocks (processes, blocks - 1)."""
        return np.diff(self.medians, axis=1)

    @property
    def rates(self) -> NDArray[np.float64]:
        """Independent observations of the growth, in bytes per call.

        If each block has independent noise, these are differences between corresponding blocks of the second and first
        half. If memory wanders, these are changes between successive blocks, since differences between distant blocks
        then share the changes in between.
        """
        changes = self.changes
        around = changes - changes.mean()
        spread = float((around**2).sum())
        if spread and float((around[:, 1:] * around[:, :-1]).sum()) / spread > WANDERS:
            return np.asarray((changes / self.calls).ravel())
        half = self.medians.shape[1] // 2
        later = self.medians[:, -half:] - self.medians[:, :half]
        return np.asarray((later / (self.calls * (self.medians.shape[1] - half))).ravel())


def growth(
    processes: Sequence[Series], *, granule_bytes: float = GRANULE_BYTES, settled_call: float = 0.0
) -> Growth:
    """Return the trend of the memory of processes with the same work.

    Args:
        processes: Memory of the processes; at least one.
        granule_bytes: Growth of a process, in bytes, that counts as none.
        settled_call: Calls up to this number are ignored, for example because some input size was new until then.
    """
    first = _judged(processes, max(settled_call, FIRST_PART * _least_calls(processes)), granule_bytes)
    if first.trend != "undecided" or first.why != "steps":
        return first
    # A single late step does not prevent a verdict on the calls after it.
    later = _judged(processes, max(settled_call, LATER_PART * _least_calls(processes)), granule_bytes)
    return later if later.trend == "level" else first


def _least_calls(processes: Sequence[Series]) -> float:
    return float(min(process.calls[-1] if process.calls.size else 0.0 for process in processes))


def _judged(processes: Sequence[Series], from_call: float, granule_bytes: float) -> Growth:
    blocks = _blocks(processes, from_call)
    if blocks is None:
        return Growth(
            trend="undecided", why="few-calls", longer=_calls_missing(processes, from_call, granule_bytes)
        )
    changes = blocks.changes
    interval = wilcoxon_interval(blocks.rates)
    found = Growth(
        trend="undecided",
        per_call=interval.centre,
        low=interval.low,
        high=interval.high,
        p=sign_flip(changes.ravel()),
        n_changes=changes.size,
        from_call=from_call,
    )
    rising = float((changes > max(0.0, RISE_SHARE * float(changes.mean()))).mean())
    total_bytes = float(np.median(blocks.medians[:, -1] - blocks.medians[:, 0]))
    more = changes.sum() > 0 and total_bytes > granule_bytes
    grows = found.p < GROWING_P and more and found.low > 0
    if grows and rising >= MOSTLY:
        third = max(1, changes.shape[1] // 3)
        if changes[:, -third:].sum() >= SLOWING * changes[:, :third].sum():
            return replace(found, trend="growing")
        return replace(found, why="slowing", longer=3.0)
    # This factor on the calls gives a step in each block, or places the last step in the ignored part.
    steps = grows or (more and rising > 0 and float((changes >= 0).mean()) > 0.8)
    return _bounded(found, blocks, granule_bytes, total_bytes, max(2.0, 0.8 / rising) if steps else 0.0)


def _bounded(
    found: Growth, blocks: _Blocks, granule_bytes: float, total_bytes: float, longer: float
) -> Growth:
    """Return the trend of memory that is not significantly growing: level, or undecided with the reason."""
    held_bytes, span = float(np.median(blocks.medians)), blocks.calls * blocks.medians.shape[1]
    most_bytes = max(0.0, found.high * span) + granule_bytes
    allowed_bytes = max(LEVEL_SHARE * held_bytes, LEVEL_BYTES)
    found = replace(found, high=most_bytes / span)
    if max(most_bytes, total_bytes) <= allowed_bytes:
        excess = found.high / max(LEAST_RATE * held_bytes, LEAST_RATE_BYTES)
        if excess <= 1:
            return replace(found, trend="level")
        return replace(found, why="few-calls", longer=min(LONGEST_FACTOR, 1.2 * excess))
    if longer:
        return replace(found, why="steps", longer=min(LONGEST_FACTOR, longer))
    times = (most_bytes / allowed_bytes) ** 2
    return replace(found, why="noise", longer=min(LONGEST_FACTOR, max(2.0, times)))


def _blocks(processes: Sequence[Series], from_call: float) -> _Blocks | None:
    """Return the blocks of all processes; None if there are too few points."""
    end_call = _least_calls(processes)
    wanted = BLOCKS.get(len(processes), BLOCKS[max(BLOCKS)])
    points = min(
        int(((process.calls > from_call) & (process.calls <= end_call)).sum()) for process in processes
    )
    n = min(wanted, points // LEAST_POINTS)
    n -= n % 2
    if n < 2 or (n - 1) * len(processes) < LEAST_CHANGES:
        return None
    edges = np.linspace(from_call, end_call, n + 1)
    medians = np.empty((len(processes), n))
    for row, process in enumerate(processes):
        place = np.searchsorted(edges, process.calls, side="left") - 1
        for column in range(n):
            inside = process.held_bytes[(place == column)]
            if not inside.size:
                return None
            medians[row, column] = np.median(inside)
    return _Blocks(medians=medians, calls=(end_call - from_call) / n, from_call=from_call)


def _calls_missing(processes: Sequence[Series], from_call: float, granule_bytes: float) -> float:
    """Return the factor on the number of calls that would give enough blocks and an interval that excludes growth."""
    n = len(processes)
    blocks = 2 * math.ceil((LEAST_CHANGES / n + 1) / 2)
    points = blocks * LEAST_POINTS / (1 - LATER_PART) / max(1, min(each.calls.size for each in processes))
    end_call = max(1.0, _least_calls(processes))
    rare = from_call / (LATER_PART * end_call)
    ends = [float(each.held_bytes[-1]) for each in processes if each.calls.size]
    least = max(LEAST_RATE * float(np.median(ends)), LEAST_RATE_BYTES) if ends else LEAST_RATE_BYTES
    calls = granule_bytes / least / ((1 - FIRST_PART) * end_call)
    return min(LONGEST_FACTOR, max(1.5, rare, points, 1.2 * calls))


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Number of further calls until memory reaches a limit.

    Attributes:
        after_calls: Expected number of further calls.
        low, high: 95 % interval; infinite if the growth has no positive lower bound.
    """

    after_calls: float
    low: float
    high: float


def forecast(found: Growth, held_bytes: float, limit_bytes: float) -> Forecast | None:
    """Forecast when memory reaches a limit; return None if memory does not grow or has already reached the limit."""
    if found.trend != "growing" or not found.per_call or held_bytes >= limit_bytes:
        return None
    left = limit_bytes - held_bytes
    return Forecast(
        after_calls=left / found.per_call,
        low=left / found.high,
        high=left / found.low if found.low > 0 else math.inf,
    )
