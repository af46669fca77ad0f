"""Transfer time of a run on a device with its own memory, from runs with and without copies."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from . import timing
from .cases import TimedCase

LEAST, MOST, MOST_NS = 3, 30, 300_000_000
"""Minimum and maximum number of turns with one run of each kind, and the nanoseconds for more than the minimum."""


def times_of_run(case: TimedCase) -> Optional[Dict[str, Any]]:
    """Return median times of a run with all copies, with inputs already on the device, and without copies.

    Return None if the values cannot be bound to the device's memory.
    """
    device, feeds = case.device, case.feeds
    if device is None or device.unbindable(feeds):
        return None
    ways: List[Callable[[], Any]] = [case.read, lambda: device.fetch(feeds), lambda: device.stay(feeds)]
    outputs = device.fetch(feeds)
    latencies: List[List[int]] = [[] for _ in ways]
    began = timing.CLOCK()
    turn = 0
    # The first turn allocates the buffers.
    while turn <= LEAST or (turn <= MOST and timing.CLOCK() - began < MOST_NS):
        for times, way in zip(latencies, ways):
            times += timing.timed(way, 1, 0, 0.0)[0][: turn > 0]
        turn += 1
    whole, fed, there = (timing.median(times) for times in latencies)
    return {
        "whole_ns": whole, "fed_ns": fed, "device_ns": there, "n_runs": turn - 1,
        "input_bytes": sum(value.nbytes for value in feeds.values()),
        "output_bytes": sum(value.nbytes for value in outputs),
    }  # fmt: skip
