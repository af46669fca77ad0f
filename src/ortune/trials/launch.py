"""One trial in one fresh process: start it, watch it, read what it says, end it."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import msgspec

from ortune import platform
from ortune.platform.pod import Pod
from ortune.records import (
    PROTOCOL_VERSION,
    Failed,
    FailureReason,
    Loaded,
    Loading,
    Measured,
    Outcome,
    TrialDone,
    TrialError,
    TrialRequest,
    WorkerMessage,
)

POLL_LOADING_S = 0.02  # a large model fills memory within tenths of a second while it loads
POLL_RUNNING_S = 0.2  # while runs are timed the watcher stays out of the way
LOG_LINES = 60

_decoder = msgspec.json.Decoder(WorkerMessage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a trial may use.

    Attributes:
        load_s: Seconds until the session exists.
        run_s: Seconds from then to the end.
        memory_share: Share of the memory left that the process may hold. Beyond it the trial is ended, since in
            a container the kernel's own answer would end ortune too.
        memory_bytes: A fixed limit besides (an emulated pod's), None without one.
    """

    load_s: float = 600.0
    run_s: float = 600.0
    memory_share: float = 0.85
    memory_bytes: int | None = None


def run_trial(
    plan: str,
    python: str,
    archive: Path,
    request: TrialRequest,
    environment: dict[str, str],
    folder: Path,
    limits: Limits | None = None,
    pod: Pod | None = None,
) -> Outcome:
    """Runs one trial. Never raises for what the trial does; Ctrl-C passes through once the process is gone.

    Args:
        plan: The plan's id, for the record.
        python: Interpreter that has onnxruntime.
        archive: The worker's zipapp.
        request: What to run.
        environment: The complete environment of the process.
        folder: Where its log goes; also its working directory.
        limits: Time and memory.
        pod: Emulated quota and memory limit that the process is put into.
    """
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    log_path = folder / "worker.log"
    before = _sensors(pod)
    start = time.monotonic_ns()
    with log_path.open("wb") as log:
        try:
            process = subprocess.Popen(
                [python, str(archive)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=folder,
                env=environment,
                start_new_session=True,  # its own group: Ctrl-C is ortune's to handle, and a kill reaches all of it
            )
        except OSError as error:
            return Failed(
                plan=plan,
                reason="no-runtime",
                what=f"cannot start {python}: {error.strerror}",
                started_at=started_at,
            )
        watch = _Watch(process, limits or Limits())
        try:
            if pod is not None:
                pod.enter(process.pid)
            end = watch.follow(request)
        finally:
            end_process(process)
    elapsed_ns = time.monotonic_ns() - start
    lines = _log_lines(log_path)
    if isinstance(end, TrialError):
        return Failed(
            plan=plan,
            reason=end.reason,
            what=end.what,
            phase=end.phase,
            log=lines,
            started_at=started_at,
            elapsed_ns=elapsed_ns,
        )
    wrong = [r for r in end.read_back if not r.ok]
    if wrong:
        what = f"{wrong[0].knob} did not arrive: {wrong[0].seen or 'nothing seen'}"
        return Failed(
            plan=plan,
            reason="not-applied",
            what=what,
            log=lines,
            started_at=started_at,
            elapsed_ns=elapsed_ns,
        )
    return Measured(
        plan=plan,
        done=end,
        sensors=platform.between(
            before,
            _sensors(pod),
            involuntary_switches=end.involuntary_switches,
            cpu_over_wall=end.cpu_ns / end.wall_ns if end.wall_ns else None,
        ),
        log=lines,
        outputs_path=request.outputs_path,
        started_at=started_at,
        elapsed_ns=elapsed_ns,
    )


def _sensors(pod: Pod | None) -> platform.Snapshot:
    """The sensors now; in an emulated pod the throttling is the pod's own."""
    now = platform.read_sensors()
    return replace(now, throttling=pod.throttling()) if pod is not None and pod.throttling() else now


class _Watch:
    """Follows one worker's messages while keeping an eye on the clock and on memory."""

    def __init__(self, process: subprocess.Popen[bytes], limits: Limits) -> None:
        self.process = process
        self.chatter = b""
        self.limits = limits
        self.phase = "starting"
        self.lines: queue.Queue[bytes | None] = queue.Queue()
        assert process.stdout is not None
        threading.Thread(target=_pump, args=(process.stdout, self.lines), daemon=True).start()

    def follow(self, request: TrialRequest) -> TrialDone | TrialError:
        """Sends the request and returns the last word."""
        assert self.process.stdin is not None
        # A worker that died before reading leaves a broken pipe; its exit status tells more.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(msgspec.json.encode(request) + b"\n")
            self.process.stdin.flush()
        deadline = time.monotonic() + self.limits.load_s
        while True:
            poll = POLL_RUNNING_S if self.phase == "running" else POLL_LOADING_S
            try:
                line = self.lines.get(timeout=poll)
            except queue.Empty:
                trouble = self._over_limits(deadline)
                if trouble:
                    return trouble
                continue
            if line is None:
                return self._ended_silently()
            if self.phase == "starting" and not line.startswith(b"{"):
                self.chatter = (
                    self.chatter or line[:200]
                )  # of a wrapper or a sitecustomize, before our code runs
                continue
            try:
                message = _decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                return self._error("protocol", f"the worker said something unreadable: {error}")
            if isinstance(message, TrialDone | TrialError):
                return message
            if isinstance(message, Loading):
                if message.version != PROTOCOL_VERSION:
                    spoken = f"the worker speaks version {message.version}, ortune {PROTOCOL_VERSION}"
                    return self._error("protocol", spoken)
                self.phase = "loading"
            elif isinstance(message, Loaded):
                self.phase = "running"
                deadline = time.monotonic() + self.limits.run_s

    def _over_limits(self, deadline: float) -> TrialError | None:
        what = over_memory(self.process, self.limits)
        if what:
            return self._error("out-of-memory", what)
        if time.monotonic() > deadline:
            limit = self.limits.run_s if self.phase == "running" else self.limits.load_s
            return self._error("timeout", f"not done after {limit:.0f} s of {self.phase}")
        return None

    def _ended_silently(self) -> TrialError:
        code = self.process.wait()
        if code == 0 or (self.chatter and code > 0):
            said = f" but {self.chatter.decode('utf-8', 'replace').strip()!r}" if self.chatter else ""
            return self._error(
                "protocol", f"exited with code {code} and said nothing{said} while {self.phase}"
            )
        if code > 0:
            return self._error("crash", f"exited with code {code} while {self.phase}")
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        if name == "SIGKILL" and self.limits.memory_bytes is not None:
            limit = self.limits.memory_bytes >> 20
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


def over_memory(process: subprocess.Popen[bytes], limits: Limits) -> str:
    """What a process holds beyond its limits, in words; "" while it holds less."""
    held = platform.process_memory_bytes(process.pid) or 0
    left = platform.memory_left_bytes()
    allowed = int(limits.memory_share * ((left or 0) + held))
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
    text = path.read_bytes()[-64_000:].decode("utf-8", "replace")
    return tuple(line for line in text.splitlines() if line.strip())[-LOG_LINES:]
