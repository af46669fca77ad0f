"""A process on a host of a cluster, with pipes of this machine as its streams."""

from __future__ import annotations

import contextlib
import io
import os
import threading
from collections.abc import Callable
from typing import IO, Protocol

from ortune import launcher
from ortune.assigned_host import HostLost

READ_S = 2.0
"""Maximum seconds that a call for new output waits at the host."""
KILLED = -9


class Calls(Protocol):
    """Calls to one process on a host; each raises HostLost if the host does not answer."""

    def write(self, data: bytes) -> bool:
        """Write to the process's stdin; return whether stdin was still open."""
        ...

    def close(self) -> None:
        """Close the standard input of the process."""
        ...

    def read(self, wait_s: float) -> tuple[bytes, bytes, int | None]:
        """Return the new bytes of stdout, those of stderr, and the exit code; None as long as a stream is open."""
        ...

    def kill(self) -> None:
        """Kill the process on its host."""
        ...


class _Input(io.RawIOBase):
    """Stdin of a process; each write is a call to the host."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def writable(self) -> bool:
        return True

    def write(self, data: object, /) -> int:
        assert isinstance(data, bytes | bytearray | memoryview)
        content = bytes(data)
        try:
            is_open = self._calls.write(content)
        except HostLost as error:
            raise BrokenPipeError(str(error)) from error
        if not is_open:
            raise BrokenPipeError("the process has ended")
        return len(content)

    def close(self) -> None:
        if not self.closed:
            with contextlib.suppress(HostLost):
                self._calls.close()
        super().close()


class ClusterProcess:
    """A process on a host, used like a ``subprocess.Popen``.

    Args:
        calls: Calls to the process.
        log: File that receives its stderr; None for a pipe.

    Attributes:
        pid: 0, since the process has no ID on this machine.
    """

    def __init__(self, calls: Calls, log: IO[bytes] | None) -> None:
        self._calls = calls
        self.pid = 0
        self.returncode: int | None = None
        self.stdin: IO[bytes] = io.BufferedWriter(_Input(calls))
        self.stdout, output = _pipe()
        self.stderr: IO[bytes] | None = None
        if log is None:
            self.stderr, errors = _pipe()
        else:
            errors = os.dup(log.fileno())  # the caller closes the file
        self._ended = threading.Event()
        threading.Thread(target=self._receive, args=(output, errors), daemon=True).start()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process and return its exit code; a lost host counts as killed.

        Raises:
            launcher.StillRunning: The process still runs after ``timeout`` seconds.
        """
        if not self._ended.wait(timeout):
            raise launcher.StillRunning("", timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        """End the process with all its descendants."""
        with contextlib.suppress(HostLost):
            self._calls.kill()

    def _receive(self, output: int, errors: int) -> None:
        """Copy stdout and stderr of the process to the file descriptors ``output`` and ``errors`` until it ends."""
        code: int | None = None
        writers: list[Callable[[bytes], None]] = [_Writer(output), _Writer(errors)]
        try:
            while code is None:
                *texts, code = self._calls.read(READ_S)
                for write, text in zip(writers, texts, strict=True):
                    assert isinstance(text, bytes)
                    write(text)
        except HostLost:
            code = KILLED
        self.returncode = code
        self._ended.set()
        os.close(output)
        os.close(errors)


class _Writer:
    """Writes to a pipe until its reader closes it; later data is dropped."""

    def __init__(self, file: int) -> None:
        self._file: int | None = file

    def __call__(self, data: bytes) -> None:
        while data and self._file is not None:
            try:
                data = data[os.write(self._file, data) :]
            except BrokenPipeError:
                self._file = None


def _pipe() -> tuple[IO[bytes], int]:
    """Return the reading end of a new pipe as a file, and the file descriptor of its writing end."""
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb"), writing
