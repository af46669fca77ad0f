"""Verdict of a soak: flat, bounded, growing or fragmented, from the memory of several processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ortune.stats.growth import FIRST_PART, GRANULE_BYTES, Growth, Series, growth

USED_GRANULE_BYTES = 32 << 10
"""Uncertainty of the allocator's own count of memory in use, which has no page steps."""
GIVEN_BACK_SHARE = 0.5
"""Minimum fraction of the growth that the allocator can return to the system if fragmentation explains the growth."""

ROSE_SHARE, ROSE_BYTES = 0.05, 4 << 20
"""Memory counts as risen since the first call if the rise exceeds the larger of both limits: two processes with the
same work differ by a few allocations of a mebibyte.
"""

FLATTENS_SHARE = 0.7
"""Minimum fraction of the rise that a change must remove to count as its cause."""
LEAST_GROWTH_BYTES = 512 << 10
"""Minimum growth of the unchanged model after its first calls for a change to count as the cause."""

Verdict = Literal["flat", "bounded", "growing", "fragmented", "undecided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakSeries:
    """One process of a soak.

    Attributes:
        held: Memory of the process and its children.
        used: Memory in use according to the allocator of the process; None if unknown.
        first_bytes: Memory after the first call.
        returned_bytes: Memory that ``malloc_trim`` returned to the system at the end, with sessions alive; None if the
            function does not exist.
    """

    held: Series
    used: Series | None
    first_bytes: float
    returned_bytes: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The verdict of a soak, with metrics that are medians over processes.

    Attributes:
        growth: Growth of the memory held, or of the memory in use if only the latter grows (``of_used``).
        held_bytes: Memory held at the end.
        rise_bytes: Rise since the first call.
        returned_bytes: Memory returned by a trim; None if unknown for all processes.
    """

    verdict: Verdict
    growth: Growth
    of_used: bool
    held_bytes: float
    rise_bytes: float
    returned_bytes: float | None


def judge(processes: Sequence[SoakSeries], settled_call: float = 0.0) -> Judged:
    """Return the verdict of a soak.

    Args:
        processes: At least one process, with at least one point each.
        settled_call: Number of calls after which no new input size occurred.
    """
    held = growth([one.held for one in processes], settled_call=settled_call)
    used = None
    if all(one.used is not None for one in processes):
        series = [one.used for one in processes if one.used is not None]
        used = growth(series, granule_bytes=USED_GRANULE_BYTES, settled_call=settled_call)
        calls = min(float(one.calls[-1]) for one in series)
        if used.trend == "growing" and (used.per_call or 0.0) * calls < GRANULE_BYTES:
            used = None  # as little is not growth in the memory held either
    ends = [float(one.held.held_bytes[-1]) for one in processes]
    rises = [end - one.first_bytes for end, one in zip(ends, processes, strict=True)]
    returned = [one.returned_bytes for one in processes if one.returned_bytes is not None]
    held_bytes, rise_bytes = float(np.median(ends)), float(np.median(rises))
    returned_bytes = float(np.median(returned)) if returned else None
    rose = rise_bytes > max(ROSE_SHARE * held_bytes, ROSE_BYTES)
    # Memory returned by a trim was free: no call keeps it, but other processes could not use it.
    free = rose and returned_bytes is not None and returned_bytes >= GIVEN_BACK_SHARE * rise_bytes
    kept = used is not None and used.trend == "growing" and _half_of(used, held)
    of_used = held.trend != "growing" and used is not None and used.trend == "growing"
    verdict: Verdict
    if held.trend == "growing":
        verdict = "fragmented" if free and not kept else "growing"
    elif of_used:
        verdict = "growing"
    elif held.trend == "level":
        verdict = ("fragmented" if free else "bounded") if rose else "flat"
    else:
        verdict = "fragmented" if free and _lasts(held) else "undecided"
    return Judged(
        verdict=verdict,
        growth=used if of_used and used is not None else held,
        of_used=of_used,
        held_bytes=held_bytes,
        rise_bytes=rise_bytes,
        returned_bytes=returned_bytes,
    )


def _half_of(used: Growth, held: Growth) -> bool:
    """Return whether the memory in use grows at least half as fast as the memory held."""
    return (used.per_call or 0.0) >= GIVEN_BACK_SHARE * (held.per_call or 0.0)


def _lasts(held: Growth) -> bool:
    """Return whether the trend is undecided although there were enough points for a decision."""
    return held.why not in ("", "few-calls")


def grown(series: Series) -> float:
    """Return the growth in bytes of a process's memory after its first calls."""
    after = series.held_bytes[series.calls >= FIRST_PART * series.calls[-1]]
    n = max(1, after.size // 8)
    return float(np.median(after[-n:]) - np.median(after[:n]))


def level(series: Series) -> float:
    """Return the median memory of a process over its last eighth of points."""
    return float(np.median(series.held_bytes[-max(1, series.calls.size // 8) :]))


def explained_share(as_is_bytes: float, changed_bytes: float, least_bytes: float) -> tuple[float, bool]:
    """Return (fraction, is_cause): the fraction of a rise that a change removes, and whether the change is its cause.

    Args:
        as_is_bytes: Rise of the unchanged model.
        changed_bytes: Rise with the change, after the same calls.
        least_bytes: Minimum rise of the unchanged model for a change to be the cause.
    """
    if as_is_bytes <= least_bytes:
        return 0.0, False
    share = 1 - changed_bytes / as_is_bytes
    return share, share >= FLATTENS_SHARE
