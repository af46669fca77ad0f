"""Open loop: calls start at precomputed times, however long the previous calls take.

Each free caller takes the next arrival and sleeps until its time. If all callers are busy, the arrival starts as soon
as one is free; this wait is part of its latency, which counts from the intended start. A late start although a caller
was free is an error of the generator, and is counted separately.
"""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Optional

from .cases import TimedCase

AHEAD_NS = 5_000_000
"""Nanoseconds between the start of the generator and the start of its schedule, in which threads begin."""


class Clock:
    """Clock and sleep of the generator, replaceable in tests."""

    now_ns = staticmethod(time.perf_counter_ns)
    thread_cpu_ns = staticmethod(getattr(time, "thread_time_ns", time.process_time_ns))

    @staticmethod
    def sleep_ns(ns: int) -> None:
        """Sleep for a time in nanoseconds."""
        time.sleep(ns / 1e9)


class PlayedCalls:
    """Results of a schedule; lists have an entry for each arrival, in order.

    Attributes:
        latencies: Nanoseconds from the intended start to the end.
        waited: Nanoseconds from the intended start until a caller was free.
        late: Nanoseconds from the time when the start was due and a caller was free, until the call began.
        busy_ns: Time inside the calls, of all callers together.
        own_cpu_ns: CPU time of the callers outside of the calls.
    """

    def __init__(self, n: int) -> None:
        self.latencies, self.waited, self.late = [0] * n, [0] * n, [0] * n
        self.busy_ns = self.own_cpu_ns = 0


def play(
    starts_ns: List[int],
    callers: List[Callable[[int], Any]],
    clock: Any = Clock,
    threads: Optional[ThreadPoolExecutor] = None,
) -> PlayedCalls:
    """Run the calls of a schedule.

    Args:
        starts_ns: Intended starts, from the start of the schedule, in order.
        callers: Each is called with the number of the arrival.
        clock: Source of the times.
        threads: Threads for several callers, one each; None for new ones.

    Returns:
        The results. An exception of a call ends the schedule and is raised.
    """
    played, lock = PlayedCalls(len(starts_ns)), threading.Lock()
    origin_ns = clock.now_ns() + AHEAD_NS
    taken = 0

    def take() -> int:
        nonlocal taken
        with lock:
            taken += 1
            return taken - 1

    def serve(call: Callable[[int], Any]) -> None:
        nonlocal taken
        precise_sleep()
        busy_ns, inside_ns, began_ns = 0, 0, clock.thread_cpu_ns()
        try:
            i = take()
            while i < len(starts_ns):
                free_ns, due_ns = clock.now_ns(), origin_ns + starts_ns[i]
                if due_ns > free_ns:
                    clock.sleep_ns(due_ns - free_ns)
                cpu_ns, start_ns = clock.thread_cpu_ns(), clock.now_ns()
                call(i)
                end_ns = clock.now_ns()
                inside_ns += clock.thread_cpu_ns() - cpu_ns
                busy_ns += end_ns - start_ns
                played.latencies[i] = end_ns - due_ns
                played.waited[i] = max(0, free_ns - due_ns)
                played.late[i] = start_ns - max(due_ns, free_ns)
                i = take()
        except BaseException:
            with lock:
                taken = len(starts_ns)  # the others end, too
            raise
        with lock:
            played.busy_ns += busy_ns
            played.own_cpu_ns += clock.thread_cpu_ns() - began_ns - inside_ns

    if len(callers) == 1:
        serve(callers[0])
    else:
        pool = threads or ThreadPoolExecutor(len(callers))
        serving = [pool.submit(serve, call) for call in callers]
        for ended in serving:
            ended.exception()  # all callers end before the first exception is raised
        if threads is None:
            pool.shutdown()
        for ended in serving:
            ended.result()
    return played


class OpenLoopRun:
    """The schedule of a trial, and its results.

    Attributes:
        played: Measurements of the calls; None before ``run``.
    """

    def __init__(self, schedule: Dict[str, Any]) -> None:
        self.starts_ns: List[int] = schedule["starts_ns"]
        self.cases: List[int] = schedule["cases"] or [0] * len(self.starts_ns)
        self.played: Optional[PlayedCalls] = None

    def run(self, callers: List[List[TimedCase]]) -> None:
        """Make the calls of the schedule, each with the input shape of its arrival."""
        self.played = play(self.starts_ns, [self._calls_of(own) for own in callers])
        for number, case in zip(self.cases, self.played.latencies):
            callers[0][number].latencies.append(case)
        for own in callers:
            for each in own:
                each.turns.append(len(each.latencies))

    def _calls_of(self, own: List[TimedCase]) -> Callable[[int], Any]:
        return lambda i: own[self.cases[i]].call()

    def report(self) -> Optional[Dict[str, Any]]:
        """Return the open-loop fields of the ``done`` message; None before ``run``."""
        played = self.played
        if played is None:
            return None
        return {
            "waited_ns": played.waited, "late_ns": played.late, "busy_ns": played.busy_ns,
            "own_cpu_ns": played.own_cpu_ns,
        }  # fmt: skip


def precise_sleep() -> None:
    """Set this thread's timer slack on Linux, so its sleep ends on time and not up to 50 us later."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    pr_set_timerslack = 29
    ctypes.CDLL(None).prctl(pr_set_timerslack, 1, 0, 0, 0)
