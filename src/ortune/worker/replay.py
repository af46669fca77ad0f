"""A process of a recorded application: creates, calls and releases sessions as its threads did.

It is started like a trial (``ortune-worker play``), loads the inputs and ONNX Runtime, and waits until all processes of
the application are ready.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Dict, List, Optional, Set, Tuple

from . import arrivals, channels, failures, protocol, timing
from . import main as trial
from .held import resident_bytes
from .protocol import Link


def main() -> None:
    """Run one process of a recorded application."""
    link = Link()
    failures.conclude(link, lambda: _run(link))


def _run(link: Link) -> None:
    protocol.die_with_parent()
    request = link.read_request()
    ort = trial.begin(link, request["applied"])
    player = Player(ort, request)
    player.warm_up()
    link.send("loaded", load_ns=0)
    link.next_command()
    link.phase = "running"
    link.send("play-done", ort_version=ort.__version__, **player.play())


class Player:
    """Player of the recorded steps of one process."""

    def __init__(self, ort: Any, request: Dict[str, Any], clock: Any = arrivals.Clock) -> None:
        from . import values  # imports numpy, which must not fail before it can be said

        self.ort, self.request, self.clock, self.values = ort, request, clock, values
        ort.set_seed(request["seed"])
        self.steps: List[List[Any]] = request["steps"]
        self.feeds = [self._feed(feed) for feed in request["feeds"]]
        self.sessions: Dict[int, Any] = {}
        self.options: Dict[int, Any] = {}  # of each session's runs
        self.shared: Dict[str, Any] = {}
        self.kept: Dict[int, Any] = {}  # by inputs: the session and the outputs of their first call
        self.lock = threading.Lock()
        self.begin()
        self.exist = [threading.Event() for _ in request["sessions"]]
        self.failed = False
        self.most_threads: Optional[int] = None
        self.took, self.late = [0] * len(self.steps), [0] * len(self.steps)
        self.waited = [0] * len(self.steps)
        self.own_cpu_ns = 0
        self.base_bytes = resident_bytes("VmRSS")
        for number, session in enumerate(request["sessions"]):
            if session["before"]:
                self.create(number)

    def warm_up(self) -> None:
        """In an open loop, call each session once with each of its inputs, since a first call takes longer."""
        called = {(step[2], step[3]) for step in self.steps if step[1] == "call"}
        for session, feed in sorted(called) if self.request["open_loop"] else ():
            if session in self.sessions:
                self.call(session, feed)

    def begin(self) -> None:
        """Reset the record of closed sessions, and count the calls that each session will get."""
        self.closing: Set[int] = set()
        self.left: Dict[int, int] = {}  # remaining calls of each session, over all threads
        for step in self.steps:
            if step[1] == "call":
                self.left[step[2]] = self.left.get(step[2], 0) + 1

    def _feed(self, feed: Dict[str, Any]) -> Dict[str, Any]:
        """Return recorded inputs in the form in which the application passed them: batched, strided, or as lists."""
        import numpy

        found: Dict[str, Any] = self.values.read_feeds(feed["path"])[0] if feed["path"] else {}
        for name, value in found.items():
            if feed["batch"] > 1:
                value = numpy.repeat(value, feed["batch"], axis=0)
            if feed["strided"] and getattr(value, "ndim", 0) > 1:
                value = numpy.ascontiguousarray(value.T).T
            found[name] = value.tolist() if name in feed["lists"] else value
        return found

    def by_thread(self) -> Dict[int, List[int]]:
        """Return the numbers of the steps of each thread."""
        found: Dict[int, List[int]] = {}
        for number, step in enumerate(self.steps):
            found.setdefault(step[0], []).append(number)
        return found

    def play(self) -> Dict[str, Any]:
        """Run all steps, each in its thread, and return the measurements."""
        by_thread = self.by_thread()
        errors: List[BaseException] = []
        origin_ns = self.clock.now_ns() + arrivals.AHEAD_NS

        def in_thread(numbers: List[int]) -> None:
            try:
                self.work(numbers, origin_ns)
            except BaseException as error:
                errors.append(error)
                self.failed = True
                for each in self.exist:
                    each.set()  # no thread waits for a session that will not be created

        threads = [threading.Thread(target=in_thread, args=(numbers,)) for numbers in by_thread.values()]
        cpu_ns, wall_ns = time.process_time_ns(), timing.CLOCK()
        if len(threads) == 1:
            in_thread(next(iter(by_thread.values())))
        else:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        wall_ns, cpu_ns = timing.CLOCK() - wall_ns, time.process_time_ns() - cpu_ns
        if errors:
            raise errors[0]
        peak = resident_bytes("VmHWM")
        self._write_outputs()
        return {
            "took_ns": self.took, "waited_ns": self.waited, "late_ns": self.late, "wall_ns": wall_ns, "cpu_ns": cpu_ns,
            "own_cpu_ns": self.own_cpu_ns, "peak_bytes": peak, "base_bytes": self.base_bytes,
            "most_threads": self.most_threads,
        }  # fmt: skip

    def work(self, numbers: List[int], origin_ns: int) -> None:
        """Run the steps of one thread."""
        arrivals.precise_sleep()
        self._count_threads()
        clock, open_loop = self.clock, self.request["open_loop"]
        began_ns, inside_ns, before_ns = clock.thread_cpu_ns(), 0, origin_ns
        for number in numbers:
            _, do, session, feed, at_ns = self.steps[number]
            due_ns = (origin_ns if open_loop else before_ns) + at_ns
            if do != "create":
                self.exist[session].wait()
            free_ns = clock.now_ns()
            if due_ns > free_ns:
                clock.sleep_ns(due_ns - free_ns)
            if self.failed:
                return
            cpu_ns, start_ns = clock.thread_cpu_ns(), clock.now_ns()
            if do == "create":
                self.create(session)
            elif do == "call":
                self.call(session, feed)
            else:
                self.close(session)
            before_ns = clock.now_ns()
            inside_ns += clock.thread_cpu_ns() - cpu_ns
            self.took[number] = before_ns - start_ns
            self.waited[number] = max(0, free_ns - due_ns) if open_loop else 0
            self.late[number] = max(0, start_ns - max(due_ns, free_ns))
            if do == "create":
                self._count_threads()
            elif do == "call":
                self._count_call(session)
        with self.lock:
            self.own_cpu_ns += clock.thread_cpu_ns() - began_ns - inside_ns

    def create(self, number: int) -> None:
        """Create a session, or reuse the session that it shares with others."""
        asked = self.request["sessions"][number]
        if asked["shared"]:
            with self.lock:  # a second thread waits for the first
                if asked["shared"] not in self.shared:
                    self.shared[asked["shared"]] = self._created(asked)
            created = self.shared[asked["shared"]]
        else:
            created = self._created(asked)
        self.sessions[number], self.options[number] = created
        self.exist[number].set()

    def _created(self, asked: Dict[str, Any]) -> Any:
        settings = channels.apply(self.ort, asked["applied"])
        arguments = channels.session_arguments(self.ort, settings, asked["providers"])
        return self.ort.InferenceSession(asked["model"], settings.session, **arguments), settings.run

    def call(self, number: int, feed: int) -> None:
        """Run a session on recorded inputs, and store the first outputs for these inputs if outputs are requested."""
        session = self.sessions[number]
        outputs = session.run(None, self.feeds[feed], self.options[number])
        if feed not in self.kept and self.request["outputs_path"]:
            self.kept[feed] = session, outputs

    def _count_call(self, number: int) -> None:
        with self.lock:
            self.left[number] -= 1
            if not self.left[number] and number in self.closing:
                del self.sessions[number]

    def close(self, number: int) -> None:
        """Release a session, or leave that to its last call, since threads do not keep the recorded times exactly."""
        with self.lock:
            if self.left.get(number):
                self.closing.add(number)
            else:
                del self.sessions[number]

    def _count_threads(self) -> None:
        now = channels.thread_count()
        if now is not None:
            self.most_threads = max(now, self.most_threads or 0)

    def _write_outputs(self) -> None:
        for feed, (session, outputs) in self.kept.items():
            named: List[Tuple[str, str]] = [(o.name, o.type) for o in session.get_outputs()]
            names, types = [name for name, _ in named], [kind for _, kind in named]
            place = os.path.join(self.request["outputs_path"], str(feed))
            self.values.write_outputs(place, names, types, outputs)
