"""A process of a recorded application that plays its steps repeatedly, and reports its memory between turns.

It is started like a trial (``ortune-worker play-soak``). Sessions that were released are created and released in each
round; the others are created once.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List

from . import failures, held, protocol, timing
from . import main as trial
from .protocol import Link
from .replay import Player
from .soak import MemoryLevel, follow, memory_now


def main() -> None:
    """Run one process of a recorded application repeatedly."""
    link = Link()
    failures.conclude(link, lambda: _run(link))


def _run(link: Link) -> None:
    protocol.die_with_parent()
    request = link.read_request()
    ort = trial.begin(link, request["play"]["applied"])
    soak = SoakedPlay(ort, request)
    link.send("loaded", load_ns=0)
    link.phase = "running"
    follow(link, lambda command: soak.turn(command["calls"]))
    link.send("soak-done", ort_version=ort.__version__, **soak.finish())


class SoakedPlay(Player):
    """Player that repeats its steps with new inputs, and measures the memory of its process."""

    def __init__(self, ort: Any, request: Dict[str, Any]) -> None:
        from .fresh import Fresh

        base_bytes = held.own_bytes()
        self.asked, self.created = request, 0
        super().__init__(ort, request["play"])
        self.base_bytes = base_bytes
        does = [{step[2] for step in self.steps if step[1] == what} for what in ("create", "close")]
        self.released = does[0] & does[1]
        threads = self.by_thread()
        self.pool = ThreadPoolExecutor(len(threads)) if len(threads) > 1 else None
        # Each thread has its own inputs, since two threads may call with the same ones at once.
        self.fresh = {
            thread: [
                Fresh(inputs, [request["seed"], thread, number])
                for number, inputs in enumerate(request["fresh"])
            ]
            for thread in threads
        }
        self.thread = threading.local()
        self.calls = self.active_ns = 0
        self.fixed: List[str] = []
        self.level = MemoryLevel(len(self.feeds))
        self.level.start()

    def turn(self, rounds: int) -> Dict[str, Any]:
        """Play all steps ``rounds`` times, and return the memory afterwards."""
        began_ns = timing.CLOCK()
        latencies: List[int] = []
        for _ in range(rounds):
            self._round()
            latencies += [took for took, step in zip(self.took, self.steps) if step[1] == "call"]
        self.active_ns += timing.CLOCK() - began_ns
        return {
            "calls": self.calls, "sessions": self.created, "active_ns": self.active_ns,
            "latency_ns": timing.median(latencies) if latencies else 0,
            **memory_now(trim=self.asked["trim"], tells_used=True),
        }  # fmt: skip

    def _round(self) -> None:
        self.begin()
        for number in self.released:
            self.exist[number].clear()
        parts = self.by_thread()
        if self.pool is None:
            self._part(next(iter(parts.items())))
            return
        for done in [self.pool.submit(self._part, part) for part in parts.items()]:
            done.result()

    def _part(self, part: Any) -> None:
        self.thread.number, numbers = part
        try:
            self.work(numbers, self.clock.now_ns())
        except BaseException:
            self.failed = True
            for each in self.exist:
                each.set()  # no thread waits for a session that will not be created
            raise

    def create(self, number: int) -> None:
        """Create a session, unless it still exists from the previous round."""
        if number in self.sessions:
            self.exist[number].set()
            return
        super().create(number)
        with self.lock:
            self.created += 1

    def close(self, number: int) -> None:
        """Release a session that the next round creates again."""
        if number in self.released:
            super().close(number)

    def call(self, number: int, feed: int) -> None:
        """Call a session with new inputs."""
        fresh, base = self.fresh[self.thread.number][feed], self.feeds[feed]
        feeds = dict(base)
        fresh.fill(feeds, base)
        options = self.options[number]
        try:
            self.sessions[number].run(None, feeds, options)
        except Exception as error:  # any exception of a model for unsupported values
            if not fresh.inputs or failures.reason(error, "running") == "out-of-memory":
                raise
            with self.lock:
                self.fixed += fresh.inputs
            fresh.inputs = {}
            self.sessions[number].run(None, base, options)
        with self.lock:
            self.calls += 1
            self.level.called(feed, self.calls)

    def finish(self) -> Dict[str, Any]:
        """Return the idle memory, the memory after a trim, and the memory after all sessions are released."""
        idle = memory_now(trim=False, tells_used=True)["held_bytes"]
        trimmed = held.own_bytes() if held.trim() else None
        self.sessions, self.shared = {}, {}
        released = memory_now(trim=True, tells_used=True)["held_bytes"]
        return {
            "base_bytes": self.base_bytes, "idle_bytes": idle, "trimmed_bytes": trimmed, "released_bytes": released,
            "peak_bytes": held.resident_bytes("VmHWM"), "steps": self.level.report(), "fixed": sorted(set(self.fixed)),
        }  # fmt: skip
