"""Workers of the tests are forks of a process that has imported ONNX Runtime: an import takes 0.3 s, in thousands.

Each is still a process of its own that runs the worker's code as it is. Where its start is the point, or its
interpreter or environment is another, it is started as usual.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from ortune import launcher
from ortune.catalogue.providers import CPU
from ortune.records import Applied
from ortune.targets import archive
from ortune.targets.process import ProcessRunner
from ortune.targets.worker import Worker
from warm_start import SESSION, SPINS, TITLE_BYTES

TOOLS = ("onnx", "onnxruntime.quantization", "onnxruntime.transformers.optimizer")
"""What the tasks of a tool import besides."""
_FIRST_SESSION = {"global_pool", "env_allocator", "process", "session.set_denormal_as_zero"}
"""Channels and keys of what is set before the first session of a process, or by it, for all later ones."""
_OWN = {"HOME", "PATH", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"}
"""Variables that matter to a worker only once it runs."""
_PID, _TEMPORARY = os.getpid(), tempfile.gettempdir()
_start = Worker._child
_warm: dict[tuple[object, ...], Warm] = {}
real = spins = False
"""Whether every worker is started as usual, and whether idle threads of forks spin as usual."""


class Forked:
    """A fork, as ``subprocess.Popen`` has a process."""

    stderr = None

    def __init__(self, warm: Warm, pid: int, stdin: int, stdout: int) -> None:
        self.pid, self._warm = pid, warm
        self.stdin, self.stdout = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb")
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended.

        Raises:
            subprocess.TimeoutExpired: It still runs after so many seconds.
        """
        if self.returncode is None:
            self.returncode = self._warm.code(self.pid, timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("worker", timeout or 0.0)
        return self.returncode

    def kill(self) -> None:
        """Kills the fork alone: before it has a group of its own, no signal to the group reaches it."""
        self._warm.kill(self.pid)


class Warm:
    """The process that workers are forks of.

    Args:
        environment: Its environment.
        modules: What it imports beside ONNX Runtime and the worker; with ``SESSION`` it opens one too,
            and with ``SPINS`` its sessions spin as usual.
    """

    def __init__(self, environment: Mapping[str, str], modules: Sequence[str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="warm-", dir=_TEMPORARY)
        self.link, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = archive.write_worker(Path(self._folder.name))
        script = str(Path(__file__).with_name("warm_start.py"))
        with other:
            self.process = subprocess.Popen(
                [sys.executable, script, str(other.fileno()), str(program), *modules, "-" * TITLE_BYTES],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=dict(environment), pass_fds=[other.fileno()],
                start_new_session=True,
            )  # fmt: skip
        self._starting = threading.Lock()
        self._started: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._codes: dict[int, int] = {}
        self._ended, self._over = threading.Condition(), False
        threading.Thread(target=self._listen, daemon=True).start()

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], folder: Path, log: IO[bytes]
    ) -> Forked:
        """A fork that becomes the worker of a command line."""
        text = json.dumps({"command": command, "environment": dict(environment), "folder": str(folder)})
        stdin, to_stdin = os.pipe()
        from_stdout, stdout = os.pipe()
        with self._starting:
            socket.send_fds(self.link, [text.encode()], [stdin, stdout, log.fileno()])
            os.close(stdin)
            os.close(stdout)
            pid = self._started.get()
        if not pid:
            raise ChildProcessError("the process that workers are forks of has ended")
        return Forked(self, pid, to_stdin, from_stdout)

    def code(self, pid: int, timeout: float | None) -> int | None:
        """The exit code of a fork; None where it still runs after so many seconds."""
        with self._ended:
            self._ended.wait_for(lambda: pid in self._codes or self._over, timeout)
            return self._codes.pop(pid, -signal.SIGKILL if self._over else None)

    def kill(self, pid: int) -> None:
        """Kills a fork, unless its end has been reported: another process may have its number by now."""
        with self._ended:
            if pid not in self._codes and not self._over:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """Ends it, and every fork with it."""
        self.link.shutdown(socket.SHUT_RDWR)
        self.process.kill()
        self.process.wait()
        self._folder.cleanup()

    def _listen(self) -> None:
        while text := self.link.recv(4096):
            message = json.loads(text)
            if "started" in message:
                self._started.put(message["started"])
                continue
            with self._ended:
                self._codes[message["ended"]] = message["code"]
                self._ended.notify_all()
        self._started.put(0)
        with self._ended:
            self._over = True
            self._ended.notify_all()


class WarmChild(launcher.Child):
    """A worker that is a fork."""

    def __init__(self, start: Callable[[], Forked], folder: Path) -> None:
        self.folder, self._guard, self._readers = folder, None, []
        with launcher._postponed_interrupts():
            self.process: Any = start()
            self.pid = self.process.pid
            launcher._running.add(self)

    def end(self) -> int:
        if self.process.returncode is None:
            self.process.kill()
        return super().end()


def child(
    worker: Worker, program: str, settings: tuple[Applied, ...], arguments: Sequence[str], log: IO[bytes]
) -> launcher.Child:
    """In place of ``Worker._child``."""
    environment = worker.environment(settings)
    if real or os.getpid() != _PID or not _is_plain(worker, program, settings):
        return _start(worker, program, settings, arguments, log)
    modules = (*((SPINS,) if spins else ()), *(TOOLS if "tool" in arguments else ()))
    if _FIRST_SESSION.isdisjoint(text for item in settings for text in (item.channel, item.key)):
        modules = (SESSION, *modules)
    key = (modules, frozenset((n, v) for n, v in environment.items() if n not in _OWN))
    if key not in _warm:
        _warm[key] = Warm(environment, modules)
    command = [worker.runtime.python, program, *arguments]
    return WarmChild(lambda: _warm[key].start(command, environment, worker.folder, log), worker.folder)


def _is_plain(worker: Worker, program: str, settings: tuple[Applied, ...]) -> bool:
    """Whether it is a worker of this interpreter and of this machine's CPU, with nothing set before it starts."""
    plain = type(worker) in (Worker, ProcessRunner) and worker.runtime.host is None
    of_process = any(item.channel in ("env", "preload") for item in settings)
    plan = worker.task.plan if isinstance(worker, ProcessRunner) else None
    others = plan is not None and any(provider.name != CPU.name for provider in plan.providers)
    unpacked = Path(program).is_dir()
    return plain and unpacked and not of_process and not others and worker.runtime.python == sys.executable


def use(temporary: str) -> None:
    """From here on, workers of this process are forks, of processes that are kept in a folder."""
    global _TEMPORARY
    _TEMPORARY = temporary
    Worker._child = child


@atexit.register
def end() -> None:
    """Ends all that workers were forked from."""
    while _warm and os.getpid() == _PID:
        _warm.popitem()[1].close()
