"""Detects loads with unmeasured pauses, in which idle threads spin and CPU time per run is too low an estimate."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ortune.records import Plan, Workload

LONGEST_GAP_NS = 100e6  # threads sleep long before it ends; a longer one only takes time


def pauses_note(
    work: Workload | None,
    load_per_s: float,
    sides: Iterable[tuple[Plan, float]],
    spins: Callable[[Plan], bool],
) -> str:
    """Return a note with the option for a rerun if the load has unmeasured pauses that matter; otherwise ""."""
    if work is None or work.gap_ns:
        return ""
    callers = work.callers * work.sessions
    # From one answer to the next request of the same caller.
    # One caller at 100 requests a second sends one each 10 ms: with a latency of 4 ms it pauses for 6 ms.
    pauses = [callers / load_per_s * 1e9 - latency_ns for plan, latency_ns in sides if spins(plan)]
    longest = max(pauses, default=0.0)
    if longest <= 0:
        return ""
    gap_ms = max(0.1, round(min(longest, LONGEST_GAP_NS) / 1e6, 1))
    return (
        "the runs had no pauses, and spinning threads keep CPUs busy during pauses; rerun with "
        f"--gap {gap_ms:g}ms"
    )
