"""Open loop: times at which calls start, drawn in advance, and what the calls tell of the load.

The latency of a call counts from its intended start. It has three parts, whose means add up: the wait until a caller
was free, the lateness of the generator, and the call itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ortune.errors import OrtuneError

LATE_SHARE = 0.1
"""Share of the mean latency that is lateness, from which on the latencies are those of the generator."""
FULL_SHARE = 0.95
"""Time inside calls that the rate asks for, as a share of the callers' time, from which on the queue keeps growing."""

Verdict = Literal["measured", "generator", "overloaded"]


def schedule(kind: str, rate_per_s: float, n: int, seed: Sequence[int]) -> tuple[int, ...]:
    """Return the starts of n calls, in nanoseconds from the start of the schedule.

    Args:
        kind: "constant"; "poisson", whose gaps are exponential; "gamma:CV", whose gaps have this coefficient of
            variation: below 1 more regular than poisson, above 1 in bursts.
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
    # Gamma of shape 1 / cv^2 has this coefficient of variation; shape 1 is the exponential distribution.
    gaps = np.random.default_rng(list(seed)).gamma(1 / cv**2, gap_ns * cv**2, n)
    return tuple(int(start) for start in np.cumsum(gaps))


def variation(kind: str) -> float:
    """Return the coefficient of variation of the gaps of a kind of arrivals.

    Raises:
        OrtuneError: There is no such kind.
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
    """Return the same arrivals, slower or faster, so that they have this rate."""
    span_ns = starts_ns[-1] - starts_ns[0] if starts_ns else 0
    if not span_ns:
        return tuple(starts_ns)
    factor = (len(starts_ns) - 1) * 1e9 / rate_per_s / span_ns
    return tuple(round((start - starts_ns[0]) * factor) for start in starts_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the calls of one process tell of the load.

    Attributes:
        waited_ns, late_ns: Means over all calls.
        waited_share, late_share: Of the mean latency.
        offered_share: Time inside calls that the rate asks for, of the callers' time; above 1 they cannot serve it.
        own_cpu_share: CPU time of the generator, of one CPU.
        served_per_s: Calls per second that the callers make at most.
    """

    waited_ns: float
    late_ns: float
    waited_share: float
    late_share: float
    offered_share: float
    own_cpu_share: float
    served_per_s: float


def verdict(*, late_share: float, offered_share: float) -> Verdict:
    """Return whether the latencies are those of the model under this load."""
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
) -> Load:
    """Return what the calls of one process tell of the load.

    Args:
        latency_ns: From the intended start to the end of each call.
        waited_ns: The part of each latency for which every caller was busy.
        late_ns: The part of each latency for which the generator was late.
        busy_ns: Time inside the calls, of all callers.
        own_cpu_ns: CPU time of the generator.
        wall_ns: From the start of the schedule to the last end.
        rate_per_s: The intended rate, on average.
        callers: Number of callers.
    """
    latencies = np.asarray(latency_ns, dtype=float)
    mean_ns, call_ns = float(latencies.mean()), busy_ns / latencies.size
    waited, late = (float(np.asarray(part, dtype=float).mean()) for part in (waited_ns, late_ns))
    return Load(
        waited_ns=waited,
        late_ns=late,
        waited_share=waited / mean_ns,
        late_share=late / mean_ns,
        offered_share=rate_per_s * call_ns / 1e9 / callers,
        own_cpu_share=own_cpu_ns / wall_ns,
        served_per_s=callers * 1e9 / call_ns,
    )
