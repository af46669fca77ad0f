"""A process that calls a model with new inputs each time, and reports its memory between turns.

It is started like a trial (``ortune-worker soak``), and sleeps between its turns, so several can be alive together.
"""

from __future__ import annotations

import gc
import mmap
import os
import random
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Optional

from . import arrivals, failures, held, protocol, timing
from . import main as trial
from .protocol import Link, Stop

STEP_BYTES = 64 << 10
"""Smallest rise of the level that counts as a step; the system hands out memory a few pages at a time."""
LATENCIES = 4096
"""Maximum number of latencies of a turn that enter its median."""
COUNTER = "<QQ"


def main() -> None:
    """Run the process of a soak."""
    link = Link()
    failures.conclude(link, lambda: _run(link))


def _run(link: Link) -> None:
    protocol.die_with_parent()
    request = link.read_request()
    ort = trial.begin(link, request["trial"]["applied"], request["trial"]["providers"])
    soak = SoakedSession(ort, request, link)
    soak.load()
    link.phase = "running"
    link.send("loaded", load_ns=soak.session.load_ns)
    follow(link, lambda command: soak.turn(command["calls"], command["starts_ns"]))
    link.send("soak-done", ort_version=ort.__version__, **soak.finish())


def follow(link: Link, turn: Callable[[Dict[str, Any]], Dict[str, Any]]) -> None:
    """Run the requested turns, asleep between them, and send the memory after each."""
    command = link.next_command()
    while command["do"] != "finish":
        if command["do"] != "soak":
            raise Stop("protocol", "unknown command %r" % command["do"])
        link.send("soak-point", **turn(command))
        command = link.next_command()
    link.phase = "reporting"


class MemoryLevel:
    """Highest level of this process's own memory, updated after each call, with the sizes that raised it."""

    def __init__(self, cases: int) -> None:
        self.calls, self.first, self.last, self.bytes = ([0] * cases for _ in range(4))
        self._high: Optional[int] = None
        self._page = mmap.PAGESIZE
        try:
            self._file: Optional[int] = os.open("/proc/self/statm", os.O_RDONLY)
        except OSError:
            self._file = None

    def _now(self) -> int:
        # Numbers of pages: total, resident, and those of the resident ones that are files or shared memory.
        fields = os.pread(self._file or 0, 128, 0).split()
        return (int(fields[1]) - int(fields[2])) * self._page

    def start(self) -> None:
        """Start at the current level."""
        if self._file is not None:
            self._high = self._now()

    def called(self, case: int, number: int) -> None:
        """Record a call with an input size, and the growth of the level."""
        if not self.calls[case]:
            self.first[case] = number
        self.calls[case] += 1
        if self._high is None:
            return
        now = self._now()
        if now > self._high + STEP_BYTES:
            self.bytes[case] += now - self._high
            self.last[case] = number
            self._high = now

    def report(self) -> List[Dict[str, int]]:
        """Return the growth caused by each size; [] if memory cannot be read."""
        if self._high is None:
            return []
        return [
            {"case": case, "calls": self.calls[case], "first_call": self.first[case],
             "last_step_call": self.last[case], "bytes": self.bytes[case]}
            for case in range(len(self.calls))
        ]  # fmt: skip


def memory_now(*, trim: bool, tells_used: bool) -> Dict[str, Any]:
    """Return the memory of this process and of its children.

    Args:
        trim: Return free pages of the allocator to the system first.
        tells_used: Whether the C library's allocator serves all allocations, so its count of used bytes is right.
    """
    gc.collect()
    if trim:
        held.trim()
    below = held.children()
    own = held.shared_out_bytes() if below else held.own_bytes()
    theirs = sum(held.shared_out_bytes(child) or 0 for child in below)
    whole, cache = held.group()
    return {
        "held_bytes": None if own is None else own + theirs, "children_bytes": theirs,
        "resident_bytes": held.resident_bytes("VmRSS"), "used_bytes": held.used_bytes() if tells_used else None,
        "group_bytes": whole, "group_cache_bytes": cache,
    }  # fmt: skip


class SoakedSession:
    """Sessions that are called repeatedly with new inputs, and the measurements so far."""

    def __init__(self, ort: Any, request: Dict[str, Any], link: Link) -> None:
        from .fresh import Fresh

        self.request, self.session = request, trial.PlanSession(ort, request["trial"], link)
        feeds = request["trial"]["feeds"]
        self.weights = [feed["weight"] for feed in feeds]
        self.order = random.Random(request["seed"])
        n_callers = request["trial"]["callers"] * request["trial"]["sessions"]
        self.fresh = [Fresh(request["fresh"], [request["seed"], number]) for number in range(n_callers)]
        self.threads = ThreadPoolExecutor(n_callers) if n_callers > 1 else None
        self.calls = self.active_ns = 0
        self.created = 1
        self.fixed: List[str] = []
        self.level = MemoryLevel(len(feeds))
        preloaded = any(item["channel"] == "preload" for item in request["trial"]["applied"])
        self._tells_used = not preloaded  # the C library's count is not that of another allocator
        self._count: Any = None

    def load(self) -> None:
        """Create the sessions and their callers, and start the measurement of memory."""
        if self.request["counter"]:
            with open(self.request["counter"], "w+b") as file:
                file.truncate(struct.calcsize(COUNTER))
                self._count = mmap.mmap(file.fileno(), struct.calcsize(COUNTER))
        self.base_bytes = held.own_bytes()
        self.session.load()
        self._make_callers()
        self.level.start()

    def _make_callers(self) -> None:
        self.callers = self.session.make_callers()
        self.bases = [[dict(case.feeds) for case in caller] for caller in self.callers]

    def turn(self, calls: int, starts_ns: List[int]) -> Dict[str, Any]:
        """Make calls, and return the memory after them.

        Args:
            calls: Number of calls.
            starts_ns: Start times; [] if each caller starts the next call after the last one.
        """
        latencies: List[int] = []
        began_ns = timing.CLOCK()
        done = 0
        while done < calls:
            recreate = self.request["recreate"]
            n = min(calls - done, recreate - self.calls % recreate) if recreate else calls - done
            self._make(n, starts_ns[done : done + n], latencies)
            done += n
            if recreate and not self.calls % recreate:
                self._recreate()
        self.active_ns += timing.CLOCK() - began_ns
        return self._point(timing.median(latencies) if latencies else 0)

    def _make(self, n: int, starts_ns: List[int], latencies: List[int]) -> None:
        """Make ``n`` calls of the current sessions, and append their latencies in nanoseconds."""
        cases = self.order.choices(range(len(self.weights)), self.weights, k=n)
        if not self.calls:
            cases[0] = self._smallest()  # the growth is counted from here, so larger sizes must come later
        gap_s = 0.0 if starts_ns else self.request["trial"]["gap_ns"] / 1e9
        before = self.calls

        def calls_by(caller: int) -> Any:
            def call(i: int) -> None:
                took_ns = self._call(caller, cases[i], before + i + 1)
                if len(latencies) < LATENCIES:
                    latencies.append(took_ns)
                if gap_s:
                    time.sleep(gap_s)

            return call

        if starts_ns or len(self.callers) > 1:
            first_ns = starts_ns[0] if starts_ns else 0
            starts = [at - first_ns for at in starts_ns] or [0] * n
            arrivals.play(
                starts, [calls_by(number) for number in range(len(self.callers))], threads=self.threads
            )
        else:
            call = calls_by(0)
            for i in range(n):
                call(i)
        self.calls += n

    def _smallest(self) -> int:
        """Return the index of the input size with the fewest elements."""
        bases = self.bases[0]
        return min(range(len(bases)), key=lambda i: sum(getattr(v, "size", 0) for v in bases[i].values()))

    def _call(self, caller: int, number: int, call: int) -> int:
        """Make one call of a size with new inputs; return its duration in nanoseconds."""
        case, fresh = self.callers[caller][number], self.fresh[caller]
        if self._count is not None:
            self._count[:] = struct.pack(COUNTER, call, number)
        fresh.fill(case.feeds, self.bases[caller][number])
        start_ns = timing.CLOCK()
        try:
            case.call()
        except Exception as error:  # any exception of a model for unsupported values
            if not self._keep_values(caller, number, error):
                raise
            start_ns = timing.CLOCK()
            case.call()
        took_ns = timing.CLOCK() - start_ns
        self.level.called(number, call)
        return took_ns

    def _keep_values(self, caller: int, number: int, error: Exception) -> bool:
        """Stop changing integer inputs, then all inputs, after an error; return False if nothing is left to fix."""
        if failures.reason(error, "running") == "out-of-memory":
            return False
        inputs = self.fresh[caller].inputs
        kept = [name for name, entry in inputs.items() if entry["kind"] == "integers"] or list(inputs)
        for fresh in self.fresh:
            for name in kept:
                fresh.inputs.pop(name, None)
        self.fixed += kept
        self.callers[caller][number].feeds.update(self.bases[caller][number])
        return bool(kept)

    def _recreate(self) -> None:
        """Delete the sessions, and create them again."""
        self.callers, self.bases = [], []
        self.session.sessions = []
        self.session.create()
        self.created += 1
        self._make_callers()

    def _point(self, latency_ns: int) -> Dict[str, Any]:
        """Return the current memory, with the number of calls and their median latency so far."""
        return {
            "calls": self.calls, "sessions": self.created, "active_ns": self.active_ns, "latency_ns": latency_ns,
            **memory_now(trim=self.request["trim"], tells_used=self._tells_used),
        }  # fmt: skip

    def finish(self) -> Dict[str, Any]:
        """Return the idle memory, the memory after a trim, and the memory after releasing the session."""
        from . import probes

        session = self.session
        read_back = probes.read_back(
            session.request["applied"], session.settings, session.sessions[0], session.added, None
        )
        gc.collect()
        idle = held.own_bytes()
        trimmed = held.own_bytes() if held.trim() else None
        released = None
        if session.releases():
            self.callers, self.bases = [], []
            session.release()
            gc.collect()
            held.trim()
            released = held.own_bytes()
        return {
            "base_bytes": self.base_bytes, "idle_bytes": idle, "trimmed_bytes": trimmed, "released_bytes": released,
            "peak_bytes": held.resident_bytes("VmHWM"), "steps": self.level.report(),
            "fixed": sorted(set(self.fixed)), "read_back": read_back,
        }  # fmt: skip
