"""A process that runs the worker: its start, the messages to it, and its answers within limits."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import msgspec

from ortune import assigned_host, launcher, monotonic
from ortune.records import (
    PROTOCOL_VERSION,
    Applied,
    Command,
    FailureReason,
    Loaded,
    PlayDone,
    PlayRequest,
    PlaySoakRequest,
    Ready,
    Runtime,
    SoakDone,
    SoakPoint,
    SoakRequest,
    SoakTurn,
    TimeSource,
    ToolDone,
    ToolRequest,
    TrialDone,
    TrialError,
    TrialRequest,
    TurnOver,
    WorkerMessage,
)
from ortune.targets.archive import environment, variables, worker_bytes, write_worker
from ortune.targets.machine import held_bytes, over_memory
from ortune.targets.remote_process import ProcessEnded, RelayLost, RemoteChild
from ortune.targets.task import Limits

POLL_LOADING_S = 0.02  # a large model fills memory within tenths of a second while it loads
POLL_RUNNING_S = 0.2
# Reading the memory takes a CPU from the runs for half a millisecond. Five readings a second would affect one in a
# hundred runs of 2 ms, and so their p99. The first runs have already needed the memory of the model.
POLL_TIMED_S = 1.0
LOG_LINES, LOG_BYTES = 60, 64_000
LOG = "worker.log"
_GONE_S = 10.0  # between the end of stdout and of the process: the system needs time to free a large memory

Message = (
    TrialRequest | TimeSource | Command | ToolRequest | PlayRequest | PlaySoakRequest | SoakRequest | SoakTurn
)
"""Messages to a process or a page."""
Last = TrialDone | ToolDone | PlayDone | SoakDone
"""Final messages of a process or page."""
Answer = Loaded | TurnOver | SoakPoint | Last
"""Messages that ``follow`` can wait for."""
_decoder = msgspec.json.Decoder(WorkerMessage | ToolDone | PlayDone | SoakPoint | SoakDone)


class Worker:
    """A worker process, from its start to its last message.

    Args:
        runtime: Runtime with the ONNX Runtime to use.
        folder: Working directory of the process, with its log.
        scratch: Folder of this invocation, with the program.
        limits: Time and memory limits.
        limit_bytes: An additional fixed memory limit in bytes; None for no such limit.

    Attributes:
        phase: Current phase of the process.
        end: The final message, or the error; None while the process is alive.
        answer: The last message that ``follow`` waited for.
    """

    def __init__(
        self, runtime: Runtime, folder: Path, scratch: Path, limits: Limits, limit_bytes: int | None = None
    ) -> None:
        self.runtime, self.folder, self.scratch = runtime, folder, scratch
        self.limits, self.limit_bytes = limits, limit_bytes
        self.phase = "starting"
        self.timing = False  # whether it is in a batch of timed runs
        self.end: Last | TrialError | None = None
        self.answer: Answer | None = None
        self.elapsed_ns = 0
        self.child: launcher.Child | None = None
        self._chatter = b""
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._in_phase_s = self._since = (
            0.0  # seconds waited in this phase, and the start of the current wait
        )

    @property
    def live(self) -> bool:
        """Whether the process has neither failed nor finished."""
        return self.end is None

    @property
    def held_bytes(self) -> int:
        """Bytes of this machine's memory that the process uses now."""
        here = self.child is not None and self.live and self.runtime.host is None
        return held_bytes(self.child.pid) if self.child is not None and here else 0

    @property
    def others_bytes(self) -> int:
        """Memory of other processes that share the memory limit, in bytes."""
        return 0

    def open(self, settings: tuple[Applied, ...], arguments: Sequence[str] = ()) -> None:
        """Start the process with the settings of its environment; set ``end`` to the error if that fails."""
        # Written first: a full disk must not be reported as an interpreter that cannot be started.
        program = str(self.program()) if self.runtime.host is None else ""
        with (self.folder / LOG).open("wb") as log:
            try:
                self.child = self._child(program, settings, arguments, log)
            except OSError as error:
                self.end = self.error("no-runtime", f"cannot start {self.runtime.python}: {error.strerror}")
                return
        if isinstance(self.child, RemoteChild):
            try:
                self.child.begin(worker_bytes(), arguments, variables(settings), self.runtime.packed)
            except RelayLost as error:
                self.end = self.error("no-runtime", f"{self.runtime.python} {error}")
                self.close()
                return
        self._lines = self.child.lines()

    def _child(
        self, program: str, settings: tuple[Applied, ...], arguments: Sequence[str], log: IO[bytes]
    ) -> launcher.Child:
        python = self.runtime.python
        if self.runtime.host is not None:
            return RemoteChild(python, log=log, folder=self.folder, limit_s=self.limits.load_s)
        command = [python, program, *arguments]
        return launcher.Child(command, environment=self.environment(settings), folder=self.folder, log=log)

    def program(self) -> Path:
        """Return the path of the program that the interpreter runs."""
        return write_worker(self.scratch)

    def environment(self, settings: tuple[Applied, ...]) -> dict[str, str]:
        """Return the environment of the process."""
        return environment(settings)

    def send(self, message: Message) -> None:
        """Send a message to the process; for a remote one, the files of a request are sent first."""
        assert self.child is not None
        if isinstance(self.child, RemoteChild) and isinstance(message, TrialRequest | ToolRequest):
            try:
                message = self.child.with_remote_paths(message)
            except ProcessEnded:
                return  # its last message is read next
            except RelayLost as error:
                self.end = self.error("protocol", f"{self.runtime.python} {error}")
                self.close()
                return
        self.child.send(msgspec.json.encode(message) + b"\n")

    def follow(
        self,
        until: type[Answer],
        patience_s: float = float("inf"),
    ) -> bool:
        """Read messages until the expected answer or the end of the process; return False if neither came in time."""
        began = self._since = monotonic.now_s()
        answer = None
        while self.live and answer is None and monotonic.now_s() < began + patience_s:
            # Limits are also checked while messages keep arriving.
            answer = self._listen(until) or self._over_limits()
            if isinstance(answer, Last | TrialError):
                self.end = answer
            if isinstance(answer, Answer):
                self.answer = answer
        now = monotonic.now_s()
        self.elapsed_ns += int((now - began) * 1e9)
        self._in_phase_s += now - self._since
        if isinstance(self.end, TrialError):
            self.close()  # a failed process must not run during other turns, or keep its memory
        return answer is not None

    def close(self) -> None:
        """End the process and its process group."""
        if self.child is not None:
            self.child.end()

    def log(self) -> tuple[str, ...]:
        """Return the last lines that ONNX Runtime and the process printed."""
        path = self.folder / LOG
        if not path.is_file():
            return ()
        text = path.read_bytes()[-LOG_BYTES:].decode("utf-8", "replace")
        return tuple(line for line in text.splitlines() if line.strip())[-LOG_LINES:]

    def error(self, reason: FailureReason, what: str) -> TrialError:
        """Return an error in the current phase.

        Raises:
            assigned_host.HostLost: The cluster host of the process does not answer, which is not the model's fault.
        """
        assigned_host.require_alive()
        return TrialError(reason=reason, what=what, phase=self.phase)

    def _listen(self, until: type[Answer]) -> Answer | TrialError | None:
        """Return one message or an error; None if there was no message, or not the expected one."""
        try:
            line = self._lines.get(timeout=self._poll_s())
        except queue.Empty:
            return None
        if line is None:
            return self._ended_silently()
        if not line.startswith(b"{"):
            # Printed by a wrapper or a sitecustomize, before the worker runs.
            self._chatter = self._chatter or line[:200]
            return None
        try:
            message = _decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return self.error("protocol", f"the worker sent an unreadable message: {error}")
        if isinstance(message, Ready):
            if message.version != PROTOCOL_VERSION:
                spoken = f"the worker uses protocol version {message.version}, ortune uses {PROTOCOL_VERSION}"
                return self.error("protocol", spoken)
            self.phase = "loading"
        elif isinstance(message, Loaded) and self.phase != "running":
            self.phase, self._in_phase_s, self._since = "running", 0.0, monotonic.now_s()
        return message if isinstance(message, until | TrialError) else None

    def _poll_s(self) -> float:
        """Return the seconds to wait for a message before the limits are checked again."""
        if self.phase != "running":
            return POLL_LOADING_S
        return POLL_TIMED_S if self.timing else POLL_RUNNING_S

    def _over_limits(self) -> TrialError | None:
        what = self._memory_trouble()
        if what:
            return self.error("out-of-memory", what)
        limit = self.limits.run_s if self.phase == "running" else self.limits.load_s
        if self._in_phase_s + monotonic.now_s() - self._since > limit:
            return self.error("timeout", f"timed out after {limit:.0f} s of {self.phase}")
        return None

    def _memory_trouble(self) -> str:
        """Return a message if the process exceeds its memory limits; "" if it does not."""
        share, others = self.limits.memory_share, self.others_bytes
        return over_memory(self.held_bytes, share, others_bytes=others, limit_bytes=self.limit_bytes)

    def _ended_silently(self) -> TrialError:
        assert self.child is not None
        code = self.child.ended_within(_GONE_S)
        if code is None:
            return self.error("protocol", f"closed its stdout without ending while {self.phase}")
        # A wrapper that printed something and ended is not a crash of ONNX Runtime.
        if code == 0 or (self._chatter and code > 0):
            said = f" but {self._chatter.decode('utf-8', 'replace').strip()!r}" if self._chatter else ""
            what = f"exited with code {code} without a message{said} while {self.phase}"
            return self.error("protocol", what)
        if code > 0:
            return self.error("crash", f"exited with code {code} while {self.phase}")
        name, limit = launcher.signal_name(code), self.limit_bytes
        if name == "SIGKILL" and limit is not None:
            what = f"killed at the container's memory limit of {limit >> 20} MiB while {self.phase}"
            return self.error("out-of-memory", what)
        hint = " (by the system's out-of-memory killer, or by a user)" if name == "SIGKILL" else ""
        return self.error("crash", f"killed by {name}{hint} while {self.phase}")
