"""A clock for the worker's schedules that no machine can disturb."""

from __future__ import annotations


class FakeClock:
    """A clock that moves only by sleeping, which ends late, and by calls."""

    def __init__(self, late_ns: int = 0) -> None:
        self.t, self.cpu, self.late_ns = 0, 0, late_ns

    def now_ns(self) -> int:
        return self.t

    def thread_cpu_ns(self) -> int:
        return self.cpu

    def sleep_ns(self, ns: int) -> None:
        self.t += ns + self.late_ns
        self.cpu += 1000

    def call(self, ns: int) -> None:
        self.t += ns
        self.cpu += ns
