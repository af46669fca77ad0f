"""Simulated memory of processes: what it looks like when nothing grows for ever, and when something does."""

from __future__ import annotations

import numpy as np

from ortune.stats.growth import Series

MIB = 1 << 20
POINTS = 96
CALLS = 20_000.0


def _series(rng, held):
    """Points at about equal distances, as turns have them, with pages as their unit."""
    calls = np.cumsum(rng.uniform(0.7, 1.3, held.size))
    return Series(calls=calls / calls[-1] * CALLS, held_bytes=np.round(held / 4096) * 4096)


def still(rng):
    """Pages come and go, a few of them."""
    return 200 * MIB + rng.integers(-20, 20, POINTS) * 4096.0


def noisy(rng):
    """One percent of it comes and goes."""
    return 200 * MIB * (1 + rng.normal(0, 0.01, POINTS))


def wandering(rng):
    """A random walk: an allocator that never decides."""
    return 200 * MIB + np.cumsum(rng.normal(0, 0.3 * MIB, POINTS))


def neighbours_cache(rng):
    """Memory of others in the group, which comes in bursts and is given back slowly."""
    held = np.zeros(POINTS)
    for i in range(1, POINTS):
        held[i] = 0.9 * held[i - 1] + (rng.random() < 0.1) * rng.exponential(40 * MIB)
    return 200 * MIB + held


def ratchet(rng):
    """The largest size ever seen stays: records of random sizes."""
    sizes = rng.lognormal(0, 0.7, POINTS * 20)
    return 100 * MIB + 10 * MIB * np.maximum.accumulate(sizes)[19::20] + rng.integers(-9, 9, POINTS) * 4096.0


def finite_ratchet(rng):
    """An arena that extends for pairs of sizes until it has seen them all."""
    held, seen, level = [], set(), 100.0 * MIB
    last = 0
    for _ in range(POINTS):
        for size in rng.integers(0, 6, 20):
            if (last, size) not in seen:
                seen.add((last, size))
                level += 2 * MIB * rng.random()
            last = size
        held.append(level)
    return np.array(held)


def sawtooth(rng):
    """A heap that is trimmed whenever it has grown by 32 MiB."""
    period = rng.uniform(6, 40)
    return 200 * MIB + 32 * MIB * ((np.arange(POINTS) / period + rng.random()) % 1)


def filled_cache(rng):
    """A cache with a limit, full early in the run."""
    full = rng.uniform(0.05, 0.3) * POINTS
    return (
        200 * MIB + 30 * MIB * np.minimum(1, np.arange(POINTS) / full) + rng.integers(-9, 9, POINTS) * 4096.0
    )


NEVER = {
    f.__name__: f
    for f in (still, noisy, wandering, neighbours_cache, ratchet, finite_ratchet, sawtooth, filled_cache)
}
"""Memory that does not grow for ever."""


def processes(rng, kind, n):
    """Return n processes of a kind."""
    return [_series(rng, kind(rng)) for _ in range(n)]


def leak(rng, kind, n, per_call):
    """Return n processes of a kind that keep so many bytes a call besides, in the steps of a heap."""
    found = []
    for _ in range(n):
        base = _series(rng, kind(rng))
        kept = np.floor((base.calls * per_call + rng.uniform(0, 135168)) / 135168) * 135168
        found.append(Series(calls=base.calls, held_bytes=base.held_bytes + kept))
    return found


def cut(found, rng):
    """Return processes that were killed somewhere."""
    end = rng.integers(5, POINTS)
    return [Series(calls=one.calls[:end], held_bytes=one.held_bytes[:end]) for one in found]
