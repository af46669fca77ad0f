"""Concurrent callers, timed only while all of them are running.

Each caller has a number of runs. A caller that finishes continues until the last one has, since the others would
otherwise have the machine to themselves; runs that end later do not count.
"""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Optional, Tuple

from . import timing
from .cases import TimedCase
from .waits import CpuWaits

CHUNKS = 4  # timed runs of several cases are interleaved in this many rounds, so that drift hits all alike


class Window:
    """The interval from the common start until the last caller has made its runs.

    Attributes:
        cpu_ns, wall_ns: CPU time of the process and wall time in it, once it is closed.
        waited_ns: Time in it during which the process's threads waited for a CPU, in total; None if unknown.
        end_ns: End on the clock of the runs; 0 while it is open.
    """

    def __init__(self, callers: int, waits: Optional[CpuWaits] = None) -> None:
        self.cpu_ns = self.wall_ns = self.end_ns = 0
        self.waited_ns: Optional[int] = None
        self._waits = waits
        self._at_work = callers
        self._lock = threading.Lock()

    def open(self) -> None:
        """Read the CPU and wall clocks at the start of the window."""
        self.waited_ns = self._waits.read_ns() if self._waits else None
        self.cpu_ns, self.wall_ns = time.process_time_ns(), timing.CLOCK()

    def leave(self) -> None:
        """Record that a caller has finished or failed; the last one stops the clocks."""
        with self._lock:
            self._at_work -= 1
            if not self._at_work:
                end_ns = timing.CLOCK()
                self.cpu_ns = time.process_time_ns() - self.cpu_ns
                self.wall_ns = end_ns - self.wall_ns
                self.waited_ns = self._waits.since_ns(self.waited_ns) if self._waits else None
                self.end_ns = end_ns


def run(
    callers: List[List[TimedCase]],
    request: Dict[str, Any],
    runs: int,
    unmeasured: int = 0,
    waits: Optional[CpuWaits] = None,
) -> Window:
    """Time a batch of every caller's cases, several callers each in their own thread.

    Args:
        callers: The cases of each caller.
        request: Request of the trial.
        runs: Runs of each case and caller, before weighting by the mix.
        unmeasured: Untimed runs of each case before the measurement, since caches and clock speeds change during a
            rest.
        waits: Counts the time that threads wait for a CPU.

    Returns:
        The window of the measured part.
    """
    window = Window(len(callers), waits)
    gate = threading.Barrier(len(callers), action=window.open)

    def call(cases: List[TimedCase]) -> None:
        try:
            for case in cases:
                timing.timed(case.call, unmeasured, request["gap_ns"], request["wait_ratio"])
        except BaseException:
            gate.abort()  # the others would wait for this caller forever
            raise
        # The last one to arrive opens the window, so that no caller is timed while another still warms up.
        gate.wait()
        try:
            _due(cases, request, runs)
        finally:
            window.leave()
        _keep_on(cases, request, runs, window)
        for case in cases:
            case.turns.append(len(case.latencies))

    if len(callers) == 1:
        call(callers[0])  # a separate thread would be one more than the user's program has
    else:
        with ThreadPoolExecutor(len(callers)) as threads:
            calls = [threads.submit(call, caller) for caller in callers]
        errors = [error for error in (pending.exception() for pending in calls) if error is not None]
        # A broken barrier only means that another caller failed.
        for error in sorted(errors, key=lambda e: isinstance(e, threading.BrokenBarrierError)):
            raise error
    return window


def _due(cases: List[TimedCase], request: Dict[str, Any], runs: int) -> None:
    chunks = CHUNKS if len(cases) > 1 else 1
    for chunk in range(chunks):
        for case in cases:
            case.time(request, runs, chunk, chunks)


def _keep_on(cases: List[TimedCase], request: Dict[str, Any], runs: int, window: Window) -> None:
    """Run cases in the proportions of the mix, one at a time, until the window is closed."""
    rounds = max(case.due(request, runs) for case in cases)
    ends: List[Tuple[TimedCase, int]] = []
    for chunk in itertools.cycle(range(rounds)):
        for case in cases:
            if window.end_ns:
                # The last caller may lose its CPU between reading the clock and closing the window: several may be
                # late.
                while ends and ends[-1][1] > window.end_ns:
                    ends.pop()[0].drop_last()
                return
            before, start = len(case.latencies), timing.CLOCK()
            case.time(request, runs, chunk, rounds)
            if len(case.latencies) > before:
                ends.append((case, start + case.latencies[-1]))
