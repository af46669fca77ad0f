"""A trial that is a process of this machine: started, told what to do turn by turn, watched meanwhile, ended.

Processes that take turns are stopped while they wait. ONNX Runtime's threads spin for some 40 ms after a run, so
that one which merely waited would be the others' busy neighbour; stopped, it goes on spinning where it was, as
between two runs that follow each other.
"""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ortune import launcher
from ortune.platform import Snapshot, between
from ortune.records import (
    PROTOCOL_VERSION,
    Applied,
    Batch,
    Command,
    Failed,
    FailureReason,
    Finish,
    Loaded,
    Measured,
    Outcome,
    Ready,
    TrialDone,
    TrialError,
    TrialRequest,
    TurnOver,
    Warm,
    WorkerMessage,
)
from ortune.targets.archive import environment, write_worker
from ortune.targets.machine import Machine, held_bytes, over_memory
from ortune.targets.task import Task
from ortune.targets.turns import Runner

POLL_LOADING_S = 0.02  # a large model fills memory within tenths of a second while it loads
POLL_RUNNING_S = 0.2  # while runs are timed the watcher stays out of the way
LOG_LINES = 60
LOG = "worker.log"

_decoder = msgspec.json.Decoder(WorkerMessage)


class Process:
    """A runner that is a process of this machine.

    Args:
        task: What it runs.
        settings: The plan's.
        machine: Where it runs.
        group: All that live at the same time, itself included. Where others do, it must sleep between its turns.
    """

    def __init__(
        self, task: Task, settings: tuple[Applied, ...], machine: Machine, group: Sequence[Runner]
    ) -> None:
        self.task, self.settings, self.machine, self.group = task, settings, machine, group
        self.phase = "starting"
        self._child: launcher.Child | None = None
        self._end: TrialDone | TrialError | None = None
        self._chatter = b""
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._started_at = ""
        self._elapsed_ns = 0
        self._in_phase_s = self._since = 0.0  # spent waiting for it in this phase, and since when once more

    @property
    def live(self) -> bool:
        """Whether it has neither failed nor finished."""
        return self._end is None

    def start(self) -> None:
        """Starts the process, which loads the model unasked."""
        self._started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        task, pod = self.task, self.machine.pod
        python, settings = task.runtime.python, self.settings
        if pod is not None and pod.affinity:
            affinity = Applied(knob="cpus", channel="process", key="affinity", value=pod.affinity)
            settings = (*settings, affinity)
        worker = write_worker(task.scratch)
        with (task.folder / LOG).open("wb") as log:
            try:
                self._child = launcher.Child(
                    [python, str(worker)], environment=environment(settings), folder=task.folder, log=log
                )
            except OSError as error:
                self._end = self._error("no-runtime", f"cannot start {python}: {error.strerror}")
                return
        if pod is not None:
            pod.enter(self._child.pid)
        self._lines = self._child.lines()
        request = msgspec.structs.replace(
            task.request,
            model=str(Path(task.request.model).absolute()),  # the worker has a working directory of its own
            applied=(*settings, *task.request.applied),
            providers=task.plan.providers,
        )
        self._send(request)

    def loaded(self) -> bool:
        """Waits a moment; whether it has loaded the model, or failed to, and sleeps."""
        if self.live and self._follow(Loaded, POLL_LOADING_S):
            self._rest()
            return True
        return not self.live

    def warm(self) -> None:
        """Its turn to run once and warm up."""
        self._turn(Warm())

    def batch(self, runs: int, unmeasured: int) -> None:
        """Its turn to time a batch."""
        self._turn(Batch(runs=runs, unmeasured=unmeasured))

    def finish(self) -> None:
        """Its last turn: to report."""
        self._turn(Finish(), TrialDone)

    def close(self) -> None:
        """Makes sure that nothing of it is left alive."""
        if self._child is not None:
            self._child.end()

    def outcome(self, before: Snapshot, after: Snapshot) -> Outcome:
        """What became of it, once it is closed."""
        end, lines = self._end, _log_lines(self.task.folder / LOG)
        assert end is not None
        wrong = [] if isinstance(end, TrialError) else [r for r in end.read_back if not r.ok]
        if wrong:
            what = f"{wrong[0].knob} did not arrive: {wrong[0].seen or 'nothing seen'}"
            end = TrialError(reason="not-applied", what=what)
        if isinstance(end, TrialError):
            return Failed(
                plan=self.task.plan.id,
                reason=end.reason,
                what=end.what,
                phase=end.phase,
                log=() if self._child is None else lines,
                started_at=self._started_at,
                elapsed_ns=self._elapsed_ns,
            )
        return Measured(
            plan=self.task.plan.id,
            done=end,
            sensors=between(
                before,
                after,
                involuntary_switches=end.involuntary_switches,
                cpu_over_wall=end.cpu_ns / end.wall_ns if end.wall_ns else None,
            ),
            log=lines,
            outputs_path=self.task.request.outputs_path,
            started_at=self._started_at,
            elapsed_ns=self._elapsed_ns,
        )

    def _turn(self, command: Command, until: type[TurnOver | TrialDone] = TurnOver) -> None:
        if self.live and self._child is not None:
            if len(self.group) > 1:
                self._child.go_on()
            self._send(command)
            self._follow(until)
            self._rest()

    def _rest(self) -> None:
        """Stops it, threads that spin included, until its next turn."""
        if len(self.group) > 1 and self.live and self._child is not None:
            self._child.stop()

    @property
    def held_bytes(self) -> int:
        """Memory that it holds now."""
        return held_bytes(self._child.pid) if self._child and self.live else 0

    def _send(self, message: TrialRequest | Command) -> None:
        assert self._child is not None
        self._child.send(msgspec.json.encode(message) + b"\n")

    def _follow(self, until: type[Loaded | TurnOver | TrialDone], patience_s: float = math.inf) -> bool:
        """Reads what it says until the answer that was waited for, or its end; False where neither came in time."""
        began = self._since = time.monotonic()
        answer = None
        while self.live and answer is None and time.monotonic() < began + patience_s:
            answer = self._listen(until)
            if isinstance(answer, TrialDone | TrialError):
                self._end = answer
        now = time.monotonic()
        self._elapsed_ns += int((now - began) * 1e9)
        self._in_phase_s += now - self._since
        return answer is not None

    def _listen(self, until: type[Loaded | TurnOver | TrialDone]) -> WorkerMessage | None:
        """One message, or what went wrong; None where it is not what was waited for, or none came yet."""
        try:
            line = self._lines.get(timeout=POLL_RUNNING_S if self.phase == "running" else POLL_LOADING_S)
        except queue.Empty:
            return self._over_limits()
        if line is None:
            return self._ended_silently()
        if self.phase == "starting" and not line.startswith(b"{"):
            # Of a wrapper or a sitecustomize, before our code runs.
            self._chatter = self._chatter or line[:200]
            return None
        try:
            message = _decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return self._error("protocol", f"the worker said something unreadable: {error}")
        if isinstance(message, Ready):
            if message.version != PROTOCOL_VERSION:
                spoken = f"the worker speaks version {message.version}, ortune {PROTOCOL_VERSION}"
                return self._error("protocol", spoken)
            self.phase = "loading"
        elif isinstance(message, Loaded):
            self.phase, self._in_phase_s, self._since = "running", 0.0, time.monotonic()
        return message if isinstance(message, until | TrialError) else None

    def _over_limits(self) -> TrialError | None:
        limits = self.task.limits
        assert self._child is not None
        # Only one of a group grows at a time, but while all of them load.
        others = sum(other.held_bytes for other in self.group if other is not self)
        what = over_memory(
            self._child.pid, limits.memory_share, others_bytes=others, limit_bytes=self.machine.pod_bytes
        )
        if what:
            return self._error("out-of-memory", what)
        limit = limits.run_s if self.phase == "running" else limits.load_s
        if self._in_phase_s + time.monotonic() - self._since > limit:
            return self._error("timeout", f"not done after {limit:.0f} s of {self.phase}")
        return None

    def _ended_silently(self) -> TrialError:
        assert self._child is not None
        code = self._child.wait()
        if code == 0 or (self._chatter and code > 0):
            said = f" but {self._chatter.decode('utf-8', 'replace').strip()!r}" if self._chatter else ""
            return self._error(
                "protocol", f"exited with code {code} and said nothing{said} while {self.phase}"
            )
        if code > 0:
            return self._error("crash", f"exited with code {code} while {self.phase}")
        name, limit = launcher.signal_name(code), self.machine.pod_bytes
        if name == "SIGKILL" and limit is not None:
            return self._error(
                "out-of-memory", f"killed at the pod's limit of {limit >> 20} MiB while {self.phase}"
            )
        hint = " (by the system's out-of-memory killer, or by hand)" if name == "SIGKILL" else ""
        return self._error("crash", f"killed by {name}{hint} while {self.phase}")

    def _error(self, reason: FailureReason, what: str) -> TrialError:
        return TrialError(reason=reason, what=what, phase=self.phase)


def _log_lines(path: Path) -> tuple[str, ...]:
    """The end of what ONNX Runtime and the process printed."""
    if not path.exists():
        return ()
    text = path.read_bytes()[-64_000:].decode("utf-8", "replace")
    return tuple(line for line in text.splitlines() if line.strip())[-LOG_LINES:]
