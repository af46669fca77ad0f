"""Start of processes, for the worker, probes, git and small system tools; no other module starts any.

Each process leads its own process group: Ctrl-C reaches only ortune, suspending and killing a process include its
descendants, and no descendant outlives ortune.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ortune import assigned_host, monotonic, process_output

LINES = 8
"""Maximum number of queued lines, since a process may run any code and must not fill memory."""
StillRunning = subprocess.TimeoutExpired
"""Raised by a wait that ends before the process does."""
_CHECK_S = 0.1
"""Seconds between two checks for the end of a process that has not closed its output."""
STARTING_S = 5.0
"""Maximum time that a starting interpreter waits for the disk; if the process slept longer, it ran a shell before."""


def started_s() -> float:
    """Return the start time of this process on the monotonic clock; the current time if unknown."""
    now_s = monotonic.now_s()
    try:
        # After the program's name, which may contain anything; in ticks since boot.
        fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
        # starttime, the 22nd field of proc(5), is the 20th after the name.
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields.split()[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        return now_s
    return now_s - age_s if 0.0 <= age_s <= STARTING_S + _awake_s() else now_s


def _awake_s() -> float:
    """Return the seconds that this process ran or waited for a CPU, which is long on a busy machine; 0.0 if unknown."""
    try:
        ran_ns, waited_ns, _ = map(int, Path("/proc/self/schedstat").read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return 0.0
    return (ran_ns + waited_ns) / 1e9


def program(name: str, path: str | None = None) -> str:
    """Return the path of a command, or "" if it is not found.

    Only absolute folders of ``PATH`` are searched: a relative folder, or the current folder that Windows adds, may
    contain other people's files.

    Args:
        name: The command.
        path: Search path; by default this process's ``PATH``.
    """
    search_path = os.environ.get("PATH", os.defpath) if path is None else path
    folders = [Path(folder) for folder in search_path.split(os.pathsep) if Path(folder).is_absolute()]
    names = [f"{name}.exe", name] if os.name == "nt" else [name]
    return next((file for f in folders for n in names if (file := shutil.which(str(f / n)))), "")


class Child:
    """A process that ortune started, in a separate process group.

    Args:
        command: Program and arguments; if the program is the interpreter of an assigned host of a cluster, the process
            is started on that host.
        environment: Complete environment; None for ortune's own. A host of a cluster uses its own.
        folder: Working directory; None for ortune's own.
        output, log: Files for stdout and stderr; None for a pipe.
        guarded: Whether a small process outside its group watches for ortune's end, so even kill -9 of ortune leaves
            nothing of it running or stopped. The worker does not need this, since it watches itself.

    Attributes:
        is_here: Whether the process runs on this machine.

    Raises:
        OSError: If it cannot be started.
    """

    is_here = True

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        output: IO[bytes] | None = None,
        log: IO[bytes] | None = None,
        guarded: bool = False,
    ) -> None:
        self.folder = folder
        self._guard: Child | None = None
        self._readers: list[int] = []  # each is closed to end a reader
        self.process: subprocess.Popen[bytes] | assigned_host.HostProcess
        host = assigned_host.assigned.get()
        if host is not None and command[0] == host.python:
            self.is_here = False
            self.process = host.start(command[1:], log)
            self.pid = self.process.pid
            _running.add(self)
            return
        with _postponed_interrupts():
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output or subprocess.PIPE,
                stderr=log or subprocess.PIPE,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
            self.pid = self.process.pid
            _running.add(self)
        if guarded and os.name == "posix":
            self._guard = Child(["/bin/sh", "-c", _GUARD, str(self.pid)])

    def send(self, data: bytes, *, last: bool = False) -> None:
        """Write to stdin, and close it if this is the ``last`` data."""
        assert self.process.stdin is not None
        # A process that ended before reading leaves a broken pipe; its exit status is more informative.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(data)
            self.process.stdin.flush()
        if last:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()

    def lines(self) -> queue.Queue[bytes | None]:
        """Return a queue of the lines printed from now on; None marks the end, or a line that is too long."""
        lines: queue.Queue[bytes | None] = queue.Queue(LINES)
        assert self.process.stdout is not None
        threading.Thread(
            target=process_output.queue_lines, args=(self.process.stdout, lines, self.reader()), daemon=True
        ).start()
        return lines

    def reader(self) -> int:
        """Return the reading end of a new pipe that ``end`` closes, for a thread that reads the output until then.

        Output does not always end with the process: a process that left the group may keep it open.
        """
        reading, writing = os.pipe()
        self._readers.append(writing)
        return reading

    def read(self) -> bytes:
        """Return some bytes of stdout as soon as there are any; empty at the end."""
        assert self.process.stdout is not None
        return os.read(self.process.stdout.fileno(), 1 << 16)

    def wait(self) -> int:
        """Wait for the end of the process; return its exit code, or minus the number of the signal that ended it."""
        return self.process.wait()

    def has_ended(self) -> bool:
        """Return whether the process has ended; its status is not collected, so ``end`` still kills its group."""
        if not self.is_here or not hasattr(os, "waitid"):
            return self.ended_within(0.0) is not None
        if self.process.returncode is not None:
            return True
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # another thread has just collected it
            return True

    def ended_within(self, limit_s: float) -> int | None:
        """Return the exit code as ``wait`` does; None if the process still runs after ``limit_s`` seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(limit_s)
        return self.process.returncode

    def sleep(self, stop: bool) -> None:
        """Suspend the process group, including spinning threads, or resume it."""
        import psutil

        # It may end at any moment, which the pipe shows.
        with contextlib.suppress(ProcessLookupError, PermissionError, psutil.Error):
            if hasattr(os, "killpg"):
                os.killpg(self.pid, signal.SIGSTOP if stop else signal.SIGCONT)
            else:
                process = psutil.Process(self.pid)
                for member in (process, *process.children(recursive=True)):
                    member.suspend() if stop else member.resume()

    def end(self) -> int:
        """Kill the process with its group; return its exit code, or minus the number of the signal that ended it."""
        # Until its status is collected, the pid is not reused; its children are killed even if it ended by itself.
        if self.process.returncode is None and self.is_here and hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        elif self.process.returncode is None:
            self.process.kill()
        # Before the wait: a process on a host of a cluster ends only after its output was read or refused.
        while self._readers:
            os.close(self._readers.pop())
        code = self.process.wait()
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        _running.discard(self)
        if self._guard is not None:
            self._guard.end()
        return code


class Foreground:
    """A command of the user that shares ortune's terminal, streams and process group.

    Ctrl-C reaches it from the terminal. Signals that only ortune receives are passed on, and do not end ortune.

    Args:
        command: Program and arguments.
        environment: Complete environment.

    Attributes:
        interrupted: The last signal from outside that requested its end, and the time on the monotonic clock in s.

    Raises:
        OSError: If it cannot be started.
    """

    def __init__(self, command: Sequence[str], *, environment: Mapping[str, str]) -> None:
        with _postponed_interrupts():
            self.process = subprocess.Popen(command, env=environment)
        self.pid = self.process.pid
        self.interrupted: tuple[int, float] | None = None

    def wait(self, tick: Callable[[], float], *, limit_s: float = math.inf) -> int | None:
        """Wait for the end of the command, calling ``tick`` repeatedly, which returns the seconds to its next call.

        Returns:
            The exit code, or minus the number of the signal that ended the command; None if it still runs after the
            limit.
        """
        deadline_s = monotonic.now_s() + limit_s
        ending = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
        passed = {*ending, signal.SIGUSR1, signal.SIGUSR2}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {*passed, signal.SIGCHLD})
        try:
            while self.process.poll() is None:
                if monotonic.now_s() >= deadline_s:
                    return None
                received = signal.sigtimedwait({*passed, signal.SIGCHLD}, tick())
                if received is None or received.si_signo not in passed:
                    continue
                if received.si_signo in ending:
                    self.interrupted = received.si_signo, monotonic.now_s()
                if received.si_code <= 0:  # else the terminal has already sent it to the whole group
                    self.process.send_signal(received.si_signo)
            return self.process.returncode
        finally:
            while signal.sigtimedwait({signal.SIGINT}, 0) is not None:
                self.interrupted = signal.SIGINT, monotonic.now_s()  # meant for the command
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def end(self, grace_s: float, tick: Callable[[], float]) -> int:
        """Request the end of the command, kill it after the grace period, and return its exit code as ``wait`` does."""
        self.process.terminate()
        code = self.wait(tick, limit_s=grace_s)
        if code is None:
            self.process.kill()
            code = self.process.wait()
        return code


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The outcome of a command.

    Attributes:
        code: Exit code, or minus the number of the signal that ended it; None if it exceeded the limit.
        output, log: The last part of stdout and stderr.
    """

    code: int | None
    output: bytes
    log: bytes


def run(
    command: Sequence[str],
    *,
    limit_s: float,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    output: IO[bytes] | None = None,
) -> CommandResult:
    """Run a command to its end, or kill it with all descendants after the limit.

    Args:
        command: Program and arguments.
        limit_s: Time limit in seconds.
        stdin: Data for stdin; must be small, since it is written before output is read.
        environment: Complete environment; None for ortune's own.
        folder: Working directory; None for ortune's own.
        output: File for the whole stdout; None to keep its end.

    Raises:
        OSError: If it cannot be started.
    """
    deadline = monotonic.now_s() + limit_s
    child = Child(command, environment=environment, folder=folder, output=output)
    texts = (bytearray(), bytearray())
    code: int | None = None
    try:
        readers = [
            threading.Thread(target=process_output.keep_end, args=(stream, text, child.reader()), daemon=True)
            for stream, text in zip((child.process.stdout, child.process.stderr), texts, strict=True)
            if stream
        ]
        for reader in readers:
            reader.start()
        child.send(stdin, last=True)
        # Normally the output ends with the process; a process that left the group may keep it open.
        for reader in readers:
            while (
                reader.is_alive() and not child.has_ended() and (left_s := deadline - monotonic.now_s()) > 0
            ):
                reader.join(min(_CHECK_S, left_s))
        if not any(reader.is_alive() for reader in readers):
            code = child.ended_within(max(0.0, deadline - monotonic.now_s()))
        elif child.has_ended():
            code = child.end()
    finally:
        child.end()
    for reader in readers:
        reader.join(2 * process_output.LAST_WORDS_S)
    return CommandResult(code=code, output=bytes(texts[0]), log=bytes(texts[1]))


def interrupt(error: BaseException) -> None:
    """Raise an error in a signal handler, but not before a process that is being started is registered.

    An exception inside ``subprocess`` would leave an unregistered process that nothing ends: it would live until its
    stdin is closed, and write into a folder that was removed meanwhile.
    """
    if not _starting.is_set():
        raise error
    _postponed.append(error)


def end_processes_in(folder: Path) -> None:
    """End all processes with a working directory in or below a folder."""
    for child in list(_running):
        if child.folder is not None and child.folder.is_relative_to(folder):
            child.end()


def signal_name(code: int) -> str:
    """Return the name of the signal that ended a process with this exit code; "" if it ended by itself."""
    if code >= 0:
        return ""
    return signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"


_GUARD = 'read -r _; kill -s KILL -- "-$0"'  # its stdin ends with ortune, in any case
_running: set[Child] = set()
_starting = threading.Event()  # set while the main thread, which runs signal handlers, starts a process
_postponed: list[BaseException] = []


@contextlib.contextmanager
def _postponed_interrupts() -> Iterator[None]:
    """Postpone an ``interrupt`` until the end of the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _starting.set()
    try:
        yield
    finally:
        _starting.clear()
        if _postponed:
            raise _postponed.pop()


@atexit.register
def _end_all() -> None:
    for child in list(_running):
        child.end()
