"""Turn-by-turn trial of ONNX Runtime, or of a framework in its own process."""

from __future__ import annotations

import gc
import time
from typing import Any, Dict, List, Optional

from . import arrivals, cases, held, timing, together
from .protocol import Link, Stop
from .waits import CpuWaits


class Trial:
    """A trial and its measurements so far; subclasses load the model and make the calls.

    Attributes:
        load_ns: Nanoseconds of loading.
        base_bytes: Resident memory before loading.
    """

    def __init__(self, request: Dict[str, Any], link: Link) -> None:
        self.request, self.link = request, link
        self.callers: List[List[cases.TimedCase]] = []
        self.load_ns = self.cpu_ns = self.wall_ns = 0
        self.base_bytes: Optional[int] = None
        self.idle: Optional[float] = None
        self.switches: Optional[int] = None
        self.waits = CpuWaits()
        self.turn_waits_ns: Optional[List[int]] = []
        self.open_loop = arrivals.OpenLoopRun(request["arrivals"]) if request["arrivals"] else None

    def load(self) -> None:
        """Load the model, so that it can be run."""
        raise NotImplementedError

    def make_callers(self) -> List[List[cases.TimedCase]]:
        """Return the cases of each caller."""
        raise NotImplementedError

    def warm(self) -> None:
        """Run each case once, and warm up."""
        from . import values  # imports numpy, which must not fail before it can be said

        request, link = self.request, self.link
        self.callers = self.make_callers()
        for number, caller in enumerate(self.callers):
            for case in caller:
                case.first(request["outputs_path"] if number == 0 else "", values)
        link.phase = "warming"
        if request["warmup_runs"]:
            for caller in self.callers:
                for case in caller:
                    case.warm_up(request)
            self.idle = _idle_cpu_ratio()
        link.phase = "timing"
        gc.collect()

    def turn(self, runs: int, unmeasured: int) -> None:
        """Time one batch of every caller."""
        before = _involuntary_switches()
        if self.open_loop is not None:
            window = together.Window(1, self.waits)
            window.open()
            self.open_loop.run(self.callers)
            window.leave()
        else:
            window = together.run(self.callers, self.request, runs, unmeasured, self.waits)
        self.cpu_ns += window.cpu_ns
        self.wall_ns += window.wall_ns
        if window.waited_ns is None:
            self.turn_waits_ns = None  # a sum over some of the turns would be meaningless
        elif self.turn_waits_ns is not None:
            self.turn_waits_ns.append(window.waited_ns)
        if before is not None:
            self.switches = (self.switches or 0) + _involuntary_switches() - before

    def report(self) -> Dict[str, Any]:
        """Return the fields of the ``done`` message."""
        callers = self.callers
        return {
            "load_ns": self.load_ns, "cases": cases.reports(callers), "cpu_ns": self.cpu_ns, "wall_ns": self.wall_ns,
            "n_runs": sum(len(c.latencies) for caller in callers for c in caller), "n_callers": len(callers),
            "idle_cpu_ratio": self.idle, "peak_bytes": held.resident_bytes("VmHWM"), "base_bytes": self.base_bytes,
            "involuntary_switches": self.switches, "turn_waits_ns": self.turn_waits_ns or [],
            "open_loop": self.open_loop.report() if self.open_loop is not None else None,
        }  # fmt: skip

    def releases(self) -> bool:
        """Return whether the model can be deleted safely before the answer is sent."""
        return False

    def release(self) -> None:
        """Delete the model, so that the remaining memory can be measured."""

    def kept(self, idle: Optional[Dict[str, Optional[int]]]) -> Optional[Dict[str, Optional[int]]]:
        """Return the idle memory measured before the report, and the memory after the release."""
        if idle is None:
            return None
        self.callers = []
        return {**idle, **held.released(self.release)} if self.releases() else idle


def follow(trial: Trial, link: Link) -> None:
    """Load the model, run the requested turns, asleep between them, and report at the end."""
    trial.load()
    link.phase = "running"
    link.send("loaded", load_ns=trial.load_ns)
    command = link.next_command()
    waited_cpu = waited = 0
    while command["do"] != "finish":
        if command["do"] == "warm":
            trial.warm()
        elif command["do"] == "run":
            trial.turn(command["runs"], command["unmeasured"])
        else:
            raise Stop("protocol", "unknown command %r" % command["do"])
        gc.disable()  # between turns too: a collection belongs to none of them
        # Read before the message, since ortune may stop this process at once.
        cpu, wall = time.process_time_ns(), timing.CLOCK()
        link.send("turn-over")
        command = link.next_command()
        waited_cpu += time.process_time_ns() - cpu
        waited += timing.CLOCK() - wall
    link.phase = "reporting"
    idle = held.idle()  # before the report, which is memory of its own
    report = trial.report()
    link.send("done", waiting_cpu_ns=waited_cpu, waiting_ns=waited, kept=trial.kept(idle), **report)


def _idle_cpu_ratio() -> float:
    """Return CPU time over wall time while the process is idle, which shows spinning threads."""
    cpu, wall = time.process_time_ns(), timing.CLOCK()
    time.sleep(0.02)
    return (time.process_time_ns() - cpu) / (timing.CLOCK() - wall)


def _involuntary_switches() -> Any:
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
