"""Starting processes: the only place that does, for the worker, probes, git and small tools of the system alike.

Each process leads a group of its own: Ctrl-C is ortune's to handle, a stop and an end reach all that it started, and
nothing of it outlives ortune.
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

from ortune import elsewhere, monotonic

OUTPUT_BYTES = 4 << 20
"""Of what a command prints the end is kept, this much of each stream: the last words tell how it ended."""
LINE_BYTES, LINES = 128 << 20, 8
"""A process may be anybody's code: one that prints without end must not fill the memory of this one."""
StillRunning = subprocess.TimeoutExpired
"""Raised by a wait that ends before the process does."""
STARTING_S = 5.0
"""What a starting interpreter can wait for a disk: a process that slept longer was a shell, say, before it was this."""


def started_s() -> float:
    """When this process was started, on the monotonic clock; now, where that is not known."""
    now_s = monotonic.now_s()
    try:
        # After the program's name, which may hold anything; in ticks since the machine was started.
        fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
        # starttime, the 22nd field of proc(5), is the 20th after the name.
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields.split()[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        return now_s
    return now_s - age_s if 0.0 <= age_s <= STARTING_S + _awake_s() else now_s


def _awake_s() -> float:
    """How long this process had a CPU or waited for one; on a busy machine a start takes far longer."""
    try:
        ran_ns, waited_ns, _ = map(int, Path("/proc/self/schedstat").read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return 0.0
    return (ran_ns + waited_ns) / 1e9


def program(name: str, path: str | None = None) -> str:
    """Return where a command lies, "" where it is not.

    Only in the absolute folders of ``PATH``: the current folder, which a relative one means and Windows adds by itself,
    may hold somebody else's files.

    Args:
        name: The command.
        path: Read instead of this process's ``PATH``.
    """
    search_path = os.environ.get("PATH", os.defpath) if path is None else path
    folders = [Path(folder) for folder in search_path.split(os.pathsep) if Path(folder).is_absolute()]
    names = [f"{name}.exe", name] if os.name == "nt" else [name]
    return next((file for f in folders for n in names if (file := shutil.which(str(f / n)))), "")


class Child:
    """A process that runs.

    Args:
        command: Program and arguments; the interpreter of an assigned host of a cluster is started there.
        environment: Its whole environment; None is ortune's own. A host of a cluster has its own.
        folder: Its working directory; None is ortune's own.
        output, log: Files that get its stdout and stderr; None is a pipe.
        guarded: It does not watch for ortune's end itself, as the worker does: a small process does, outside of its
            group, so that even kill -9 of ortune leaves nothing of it, stopped or not.

    Attributes:
        is_here: Whether it runs on this machine.

    Raises:
        OSError: It cannot be started.
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
        self.process: subprocess.Popen[bytes] | elsewhere.Process
        host = elsewhere.assigned.get()
        if host is not None and command[0] == host.python:
            self.is_here = False
            self.process = host.start(command[1:], log)
            self.pid = self.process.pid
            _running.add(self)
            return
        with _whole():
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
        """Write to its stdin, and closes it after the ``last``."""
        assert self.process.stdin is not None
        # One that died before reading leaves a broken pipe; its exit status tells more.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(data)
            self.process.stdin.flush()
        if last:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()

    def lines(self) -> queue.Queue[bytes | None]:
        """Return what it prints from now on, line by line as it comes; None is the end, or a line that is too long."""
        lines: queue.Queue[bytes | None] = queue.Queue(LINES)
        assert self.process.stdout is not None
        threading.Thread(target=_pump, args=(self.process.stdout, lines), daemon=True).start()
        return lines

    def read(self) -> bytes:
        """Return some bytes of what it prints, as soon as there are any; none at the end."""
        assert self.process.stdout is not None
        return os.read(self.process.stdout.fileno(), 1 << 16)

    def wait(self) -> int:
        """Wait for its end; its exit code, minus the signal's number where one ended it."""
        return self.process.wait()

    def ended_within(self, limit_s: float) -> int | None:
        """Return the exit code as ``wait`` gives it; None where the process still runs after so long."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(limit_s)
        return self.process.returncode

    def sleep(self, stop: bool) -> None:
        """Stop it where it is, threads that spin included, or lets it go on."""
        import psutil

        # Its end may come at any moment; it is told by the pipe.
        with contextlib.suppress(ProcessLookupError, PermissionError, psutil.Error):
            if hasattr(os, "killpg"):
                os.killpg(self.pid, signal.SIGSTOP if stop else signal.SIGCONT)
            else:
                process = psutil.Process(self.pid)
                for member in (process, *process.children(recursive=True)):
                    member.suspend() if stop else member.resume()

    def end(self) -> int:
        """Make sure that nothing of it is left alive; its exit code, minus the signal's number where one ended it."""
        # While its status was not collected, the number is its own; its children die with it even if it ended itself.
        if self.process.returncode is None and self.is_here and hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        elif self.process.returncode is None:
            self.process.kill()
        code = self.process.wait()
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        _running.discard(self)
        if self._guard is not None:
            self._guard.end()
        return code


class Foreground:
    """A command of the user's: it shares the terminal, the streams and the process group of ortune.

    Ctrl-C reaches it from the terminal. Signals that only ortune receives are passed on, and ortune outlives them.

    Args:
        command: Program and arguments.
        environment: Its whole environment.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(self, command: Sequence[str], *, environment: Mapping[str, str]) -> None:
        with _whole():
            self.process = subprocess.Popen(command, env=environment)
        self.pid = self.process.pid

    def wait(self, tick: Callable[[], float], *, limit_s: float = math.inf) -> int | None:
        """Wait for the end of the command, and call ``tick`` at the intervals in seconds that it returns.

        Returns:
            The exit code, minus the number of the signal that ended it; None if it still runs after the limit.
        """
        deadline_s = monotonic.now_s() + limit_s
        passed = {
            signal.SIGINT,
            signal.SIGTERM,
            signal.SIGHUP,
            signal.SIGQUIT,
            signal.SIGUSR1,
            signal.SIGUSR2,
        }
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {*passed, signal.SIGCHLD})
        try:
            while self.process.poll() is None:
                if monotonic.now_s() >= deadline_s:
                    return None
                received = signal.sigtimedwait({*passed, signal.SIGCHLD}, tick())
                # The terminal has sent it to the whole group already.
                if received is not None and received.si_signo in passed and received.si_code <= 0:
                    self.process.send_signal(received.si_signo)
            return self.process.returncode
        finally:
            while signal.sigtimedwait({signal.SIGINT}, 0) is not None:
                pass  # meant for the command
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def end(self, grace_s: float, tick: Callable[[], float]) -> int:
        """Ask it to end, kill it after the grace period, and return its exit code as ``wait`` does."""
        self.process.terminate()
        code = self.wait(tick, limit_s=grace_s)
        if code is None:
            self.process.kill()
            code = self.process.wait()
        return code


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What became of a command.

    Attributes:
        code: Its exit code, minus the signal's number where one ended it; None where it was cut off.
        output, log: The end of what it printed on stdout and stderr.
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
    """Run a command to its end, or ends it after the limit, with all that it started.

    Args:
        command: Program and arguments.
        limit_s: Seconds it may take.
        stdin: Its stdin, small: it is written before anything is read.
        environment: Its whole environment; None is ortune's own.
        folder: Its working directory; None is ortune's own.
        output: A file that gets its whole stdout; None keeps the end.

    Raises:
        OSError: It cannot be started.
    """
    deadline = monotonic.now_s() + limit_s
    child = Child(command, environment=environment, folder=folder, output=output)
    texts = (bytearray(), bytearray())
    code: int | None = None
    try:
        readers = [
            threading.Thread(target=_keep, args=(stream, text), daemon=True)
            for stream, text in zip((child.process.stdout, child.process.stderr), texts, strict=True)
            if stream
        ]
        for reader in readers:
            reader.start()
        child.send(stdin, last=True)
        for reader in readers:
            reader.join(max(0.0, deadline - monotonic.now_s()))
        if not any(reader.is_alive() for reader in readers):
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = child.process.wait(max(0.0, deadline - monotonic.now_s()))
    finally:
        child.end()
    for reader in readers:
        reader.join(_LAST_WORDS_S)
    return CommandResult(code=code, output=bytes(texts[0]), log=bytes(texts[1]))


def interrupt(error: BaseException) -> None:
    """Raise it, in the handler of a signal; while a process is being started, as soon as that is known.

    An exception out of the middle of ``subprocess`` would leave a process that nobody knows and nobody ends: it lived
    until it saw its stdin closed, and wrote into a folder that was removed meanwhile.
    """
    if not _starting.is_set():
        raise error
    _postponed.append(error)


def end_in(folder: Path) -> None:
    """Make sure that nothing is left alive that works in a folder or below it."""
    for child in list(_running):
        if child.folder is not None and child.folder.is_relative_to(folder):
            child.end()


def signal_name(code: int) -> str:
    """Return what ended a process with that exit code, by the signal's name; "" where it ended by itself."""
    if code >= 0:
        return ""
    return signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"


_GUARD = 'read -r _; kill -s KILL -- "-$0"'  # its stdin ends with ortune, however that ends
_LAST_WORDS_S = 1.0  # a pipe ends with its writers, but for one that left the group
_running: set[Child] = set()
_starting = threading.Event()  # a process, by the main thread: handlers of signals run there
_postponed: list[BaseException] = []


@contextlib.contextmanager
def _whole() -> Iterator[None]:
    """An ``interrupt`` that arrives meanwhile is raised afterwards."""
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


def _pump(stream: IO[bytes], lines: queue.Queue[bytes | None]) -> None:
    with stream:
        while line := stream.readline(LINE_BYTES + 1):
            if len(line) > LINE_BYTES:
                break
            lines.put(line)
    lines.put(None)


def _keep(stream: IO[bytes], text: bytearray) -> None:
    with stream:
        while chunk := os.read(stream.fileno(), 1 << 16):
            text += chunk
            del text[:-OUTPUT_BYTES]
