"""Open-loop load: start times of calls, which are drawn in advance, and load measures of the calls.

The latency of a call counts from its intended start. It has three parts, whose means add up: the wait for a free
caller, the lateness of the generator, and the call itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ortune.errors import OrtuneError
from ortune.records import LoadFigures

LATE_SHARE = 0.1
"""Fraction of lateness in the mean latency from which on the latencies are those of the generator, not of the model."""
FULL_SHARE = 0.95
"""Maximum fraction of the callers' time that the rate requires inside calls; above it, the queue keeps growing."""

RECORDED = "recorded"
"""The kind of arrivals at recorded times, besides the kinds of ``schedule``."""

Verdict = Literal["measured", "generator", "overloaded"]


def schedule(kind: str, rate_per_s: float, n: int, seed: Sequence[int]) -> tuple[int, ...]:
    """Return the start times of n calls, in nanoseconds from the start of the schedule.

    Args:
        kind: "constant"; "poisson", with exponential gaps; or "gamma:CV", with this coefficient of variation of the
            gaps: below 1 more regular than poisson, above 1 in bursts.
        rate_per_s: Calls per second, on average.
        n: Number of calls.
        seed: Equal seeds give equal schedules.
    """
    cv = variation(kind)
    if not rate_per_s > 0:
        raise OrtuneError(f"a rate must be above 0, not {rate_per_s}")
    gap_ns = 1e9 / rate_per_s
    if not cv:
        return tuple(round(i * gap_ns) for i in range(n))
    # A gamma distribution of shape 1 / cv^2 has this coefficient of variation; shape 1 is the exponential
    # distribution.
    gaps = np.random.default_rng(list(seed)).gamma(1 / cv**2, gap_ns * cv**2, n)
    return tuple(int(start) for start in np.cumsum(gaps))


def variation(kind: str) -> float:
    """Return the coefficient of variation of the gaps between calls for a kind of schedule (see ``schedule``).

    Raises:
        OrtuneError: If the kind is unknown.
    """
    name, _, text = kind.partition(":")
    if name == "gamma":
        try:
            cv = float(text)
        except ValueError:
            cv = 0.0
        if 0.01 <= cv <= 100:
            return cv
    elif kind in ("poisson", "constant"):
        return 1.0 if kind == "poisson" else 0.0
    raise OrtuneError(f"{kind!r} is not a kind of arrivals", do="constant, poisson or gamma:CV, e.g. gamma:2")


def scaled(starts_ns: Sequence[int], rate_per_s: float) -> tuple[int, ...]:
    """Return the same arrivals, shifted to start at 0 and stretched or compressed to this mean rate."""
    span_ns = starts_ns[-1] - starts_ns[0] if starts_ns else 0
    if not span_ns:
        return tuple(starts_ns)
    factor = (len(starts_ns) - 1) * 1e9 / rate_per_s / span_ns
    return tuple(round((start - starts_ns[0]) * factor) for start in starts_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedArrivals:
    """New start times for recorded calls.

    Attributes:
        kind: "recorded", which keeps the pattern of the recorded times, or a kind of ``schedule``.
        rate_per_s: Calls per second, on average; None for recorded calls at their recorded times.
    """

    kind: str
    rate_per_s: float | None

    def starts(self, recorded_ns: Sequence[int], seed: Sequence[int]) -> tuple[int, ...]:
        """Return a start time for each recorded start time, in the same order."""
        if self.rate_per_s is None:
            return tuple(recorded_ns)
        if self.kind == RECORDED:
            return scaled(recorded_ns, self.rate_per_s)
        return schedule(self.kind, self.rate_per_s, len(recorded_ns), seed)


def verdict(*, late_share: float, offered_share: float) -> Verdict:
    """Return whether the latencies describe the model under this load, the load generator, or an overload."""
    if late_share > LATE_SHARE:
        return "generator"
    return "overloaded" if offered_share > FULL_SHARE else "measured"


def load_of(
    latency_ns: ArrayLike,
    waited_ns: ArrayLike,
    late_ns: ArrayLike,
    *,
    busy_ns: int,
    own_cpu_ns: int,
    wall_ns: int,
    rate_per_s: float,
    callers: int,
) -> LoadFigures:
    """Compute the load measures for the calls of one process.

    Args:
        latency_ns: From the intended start to the end of each call.
        waited_ns: Part of each latency during which every caller was busy.
        late_ns: Part of each latency during which the generator was late.
        busy_ns: Time inside calls, summed over callers.
        own_cpu_ns: CPU time of the generator.
        wall_ns: Time from the start of the schedule to the end of the last call.
        rate_per_s: Intended mean rate.
        callers: Number of callers.
    """
    latencies = np.asarray(latency_ns, dtype=float)
    mean_ns, call_ns = float(latencies.mean()), busy_ns / latencies.size
    waited, late = (float(np.asarray(part, dtype=float).mean()) for part in (waited_ns, late_ns))
    return LoadFigures(
        waited_ns=waited,
        late_ns=late,
        waited_share=waited / mean_ns,
        late_share=late / mean_ns,
        offered_share=rate_per_s * call_ns / 1e9 / callers,
        own_cpu_share=own_cpu_ns / wall_ns,
        served_per_s=callers * 1e9 / call_ns,
    )


def median_load(loads: Sequence[LoadFigures]) -> LoadFigures:
    """Return the median of each load measure over processes."""
    names = LoadFigures.__struct_fields__
    return LoadFigures(**{name: float(np.median([getattr(one, name) for one in loads])) for name in names})
