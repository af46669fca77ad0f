"""Gives the calls of a replay other start times, and moves its other steps with them."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from ortune.inputs.played import ReplayPart


def retimed(
    played: ReplayPart, starts: Callable[[Sequence[int]], Sequence[int]], rate_per_s: float | None = None
) -> ReplayPart:
    """Return a part whose calls start at other times; their order, threads, sessions and inputs stay.

    A step that is not a call keeps its place between the calls of all processes that start before and after it.

    Args:
        played: A part whose steps have times from the start of the replay (``open_loop`` of ``scripts_of``).
        starts: Returns a new start time for each start time of a call. Both are in ascending order, in nanoseconds from
            the first call.
        rate_per_s: Calls per second, on average; None to compute it from the new times.
    """
    places = sorted(
        (step.at_ns, script, number)
        for script, own in enumerate(played.scripts)
        for number, step in enumerate(own.steps)
        if step.do == "call"
    )
    if not places:
        return played
    old = [at_ns for at_ns, _, _ in places]
    new = [old[0] + at_ns for at_ns in starts([at_ns - old[0] for at_ns in old])]
    called = {(script, number): at_ns for (_, script, number), at_ns in zip(places, new, strict=True)}
    scripts = tuple(
        replace(
            own,
            steps=tuple(
                msgspec.structs.replace(
                    step, at_ns=called.get((script, number), _moved(step.at_ns, old, new))
                )
                for number, step in enumerate(own.steps)
            ),
        )
        for script, own in enumerate(played.scripts)
    )
    if rate_per_s is None and new[-1] > new[0]:
        rate_per_s = 1e9 * (len(new) - 1) / (new[-1] - new[0])
    return replace(played, scripts=scripts, span_ns=played.span_ns + new[-1] - old[-1], rate_per_s=rate_per_s)


def _moved(at_ns: int, old: Sequence[int], new: Sequence[int]) -> int:
    """Return the new time of a step that is not a call, by linear interpolation between two calls."""
    n = bisect.bisect_right(old, at_ns)
    if n == 0:
        return at_ns
    if n == len(old):
        return new[-1] - old[-1] + at_ns
    share = (at_ns - old[n - 1]) / (old[n] - old[n - 1])
    return round(new[n - 1] + share * (new[n] - new[n - 1]))
