"""A trial's process: started, told what to do turn by turn, watched meanwhile, asleep in between, ended.

Processes that take turns are stopped while they wait. ONNX Runtime's threads spin for some 40 ms after a run, so
that one which merely waited would be the others' busy neighbour; stopped, it goes on spinning where it was, as
between two runs that follow each other.
"""

from __future__ import annotations

import contextlib
import math
import os
import queue
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import msgspec
import psutil

from ortune import platform
from ortune.platform.pod import Pod
from ortune.records import (
    PROTOCOL_VERSION,
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
from ortune.trials.turns import ALONE, Turns, load, take_turns

POLL_LOADING_S = 0.02  # a large model fills memory within tenths of a second while it loads
POLL_RUNNING_S = 0.2  # while runs are timed the watcher stays out of the way
LOG_LINES = 60
LOG = "worker.log"

_decoder = msgspec.json.Decoder(WorkerMessage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a trial may use.

    Attributes:
        load_s: Seconds until the session exists; of several that load at once, of each one's share.
        run_s: Seconds for all that comes then, the turns of others not counted.
        memory_share: Share of the memory left that the process may hold. Beyond it the trial is ended, since in
            a container the kernel's own answer would end ortune too.
        memory_bytes: A fixed limit besides (an emulated pod's), None without one.
    """

    load_s: float = 600.0
    run_s: float = 600.0
    memory_share: float = 0.85
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """All that a trial's process is started with.

    Attributes:
        plan: The plan's id, for the record.
        python: Interpreter that has onnxruntime.
        archive: The worker, from ``write_worker``.
        request: What to run.
        environment: The complete environment of the process.
        folder: Where its log goes; also its working directory.
        limits: Time and memory.
        pod: Emulated quota and memory limit that the process is put into.
    """

    plan: str
    python: str
    archive: Path
    request: TrialRequest
    environment: dict[str, str]
    folder: Path
    limits: Limits = Limits()
    pod: Pod | None = None


def run_trial(launch: Launch, runs: int) -> Outcome:
    """One trial alone. Never raises for what it does; Ctrl-C passes through once the process is gone.

    Args:
        launch: The trial.
        runs: Timed runs a case. 0: load and run once, time nothing further.
    """
    outcomes = run_group([launch], Turns(runs=runs, unmeasured=0, rounds=1) if runs else ALONE)
    assert outcomes is not None
    return outcomes[0]


def run_group(
    launches: Sequence[Launch],
    turns: Turns,
    rng: random.Random | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[Outcome, ...] | None:
    """Trials of one pod alive together, taking turns; an outcome each, None when a stop was asked for on the way."""
    pod = launches[0].pod if launches else None
    runners: list[Process] = []
    runners += [Process(launch, runners) for launch in launches]
    try:
        if not load(runners, stop):
            return None
        before = _sensors(pod)
        if not take_turns(runners, turns, rng or random.Random(), stop):
            return None
    finally:
        for runner in runners:
            runner.close()
    after = _sensors(pod)
    return tuple(runner.outcome(before, after) for runner in runners)


def _sensors(pod: Pod | None) -> platform.Snapshot:
    """The sensors now; in an emulated pod the throttling is the pod's own."""
    now = platform.read_sensors()
    return replace(now, throttling=pod.throttling()) if pod is not None and pod.throttling() else now


class Process:
    """A runner that is a process of this machine.

    Args:
        launch: What it is started with.
        group: All that live at the same time, itself included. Where others do, it must sleep between its turns.
    """

    def __init__(self, launch: Launch, group: list[Process]) -> None:
        self.launch = launch
        self.phase = "starting"
        self.group = group
        self._process: subprocess.Popen[bytes] | None = None
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
        launch = self.launch
        with (launch.folder / LOG).open("wb") as log:
            try:
                self._process = subprocess.Popen(
                    [launch.python, str(launch.archive)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd=launch.folder,
                    env=launch.environment,
                    start_new_session=True,  # its own group: Ctrl-C is ortune's, a stop and a kill reach all of it
                )
            except OSError as error:
                self._end = self._error("no-runtime", f"cannot start {launch.python}: {error.strerror}")
                return
        if launch.pod is not None:
            launch.pod.enter(self._process.pid)
        assert self._process.stdout is not None
        threading.Thread(target=_pump, args=(self._process.stdout, self._lines), daemon=True).start()
        self._send(launch.request)

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
        if self._process is not None:
            end_process(self._process)

    def outcome(self, before: platform.Snapshot, after: platform.Snapshot) -> Outcome:
        """What became of it, once it is closed."""
        end, lines = self._end, _log_lines(self.launch.folder / LOG)
        assert end is not None
        wrong = [] if isinstance(end, TrialError) else [r for r in end.read_back if not r.ok]
        if wrong:
            what = f"{wrong[0].knob} did not arrive: {wrong[0].seen or 'nothing seen'}"
            end = TrialError(reason="not-applied", what=what)
        if isinstance(end, TrialError):
            return Failed(
                plan=self.launch.plan,
                reason=end.reason,
                what=end.what,
                phase=end.phase,
                log=() if self._process is None else lines,
                started_at=self._started_at,
                elapsed_ns=self._elapsed_ns,
            )
        return Measured(
            plan=self.launch.plan,
            done=end,
            sensors=platform.between(
                before,
                after,
                involuntary_switches=end.involuntary_switches,
                cpu_over_wall=end.cpu_ns / end.wall_ns if end.wall_ns else None,
            ),
            log=lines,
            outputs_path=self.launch.request.outputs_path,
            started_at=self._started_at,
            elapsed_ns=self._elapsed_ns,
        )

    def _turn(self, command: Command, until: type[TurnOver | TrialDone] = TurnOver) -> None:
        if self.live:
            self._wake()
            self._send(command)
            self._follow(until)
            self._rest()

    def _rest(self) -> None:
        """Stops it, threads that spin included, until its next turn."""
        self._stopped(True)

    def _wake(self) -> None:
        self._stopped(False)

    def _stopped(self, stop: bool) -> None:
        if len(self.group) < 2 or not self.live or self._process is None:
            return
        # Its end may come at any moment; it is told by the pipe.
        with contextlib.suppress(ProcessLookupError, PermissionError, psutil.Error):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGSTOP if stop else signal.SIGCONT)
            else:
                process = psutil.Process(self._process.pid)
                for each in (process, *process.children(recursive=True)):
                    each.suspend() if stop else each.resume()

    @property
    def held_bytes(self) -> int:
        """Memory that it holds now."""
        return platform.process_memory_bytes(self._process.pid) or 0 if self._process and self.live else 0

    def _send(self, message: TrialRequest | Command) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        # A worker that died before reading leaves a broken pipe; its exit status tells more.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(msgspec.json.encode(message) + b"\n")
            self._process.stdin.flush()

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
        limits = self.launch.limits
        assert self._process is not None
        # Only one of a group grows at a time, but while all of them load.
        others = sum(other.held_bytes for other in self.group if other is not self)
        what = over_memory(self._process, limits, others)
        if what:
            return self._error("out-of-memory", what)
        limit = limits.run_s if self.phase == "running" else limits.load_s
        if self._in_phase_s + time.monotonic() - self._since > limit:
            return self._error("timeout", f"not done after {limit:.0f} s of {self.phase}")
        return None

    def _ended_silently(self) -> TrialError:
        assert self._process is not None
        code = self._process.wait()
        if code == 0 or (self._chatter and code > 0):
            said = f" but {self._chatter.decode('utf-8', 'replace').strip()!r}" if self._chatter else ""
            return self._error(
                "protocol", f"exited with code {code} and said nothing{said} while {self.phase}"
            )
        if code > 0:
            return self._error("crash", f"exited with code {code} while {self.phase}")
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        if name == "SIGKILL" and self.launch.limits.memory_bytes is not None:
            limit = self.launch.limits.memory_bytes >> 20
            return self._error(
                "out-of-memory", f"killed at the pod's limit of {limit} MiB while {self.phase}"
            )
        hint = " (by the system's out-of-memory killer, or by hand)" if name == "SIGKILL" else ""
        return self._error("crash", f"killed by {name}{hint} while {self.phase}")

    def _error(self, reason: FailureReason, what: str) -> TrialError:
        return TrialError(reason=reason, what=what, phase=self.phase)


def _pump(stream: IO[bytes], lines: queue.Queue[bytes | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def over_memory(process: subprocess.Popen[bytes], limits: Limits, others_bytes: int = 0) -> str:
    """What a process holds beyond its limits, in words; "" while it holds less.

    Args:
        process: The process.
        limits: Its limits.
        others_bytes: What others of its group hold: the share of the memory left is for all of them.
    """
    held = platform.process_memory_bytes(process.pid) or 0
    left = platform.memory_left_bytes()
    allowed = int(limits.memory_share * ((left or 0) + held + others_bytes)) - others_bytes
    if left is None:
        allowed = limits.memory_bytes or 0
    elif limits.memory_bytes is not None:
        allowed = min(allowed, limits.memory_bytes)
    if not allowed or held <= allowed:
        return ""
    return f"held {held / 2**30:.1f} GiB of {allowed / 2**30:.1f} GiB allowed; ended before the system would"


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Makes sure that nothing of a trial or a task is left alive."""
    # While its status was not collected, the number is its own; its children die with it even if it ended itself.
    if process.returncode is None and hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    elif process.returncode is None:
        process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream:
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def _log_lines(path: Path) -> tuple[str, ...]:
    """The end of what ONNX Runtime and the process printed."""
    if not path.exists():
        return ()
    text = path.read_bytes()[-64_000:].decode("utf-8", "replace")
    return tuple(line for line in text.splitlines() if line.strip())[-LOG_LINES:]
