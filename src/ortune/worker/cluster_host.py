"""Ray actor on a host of a cluster: starts ortune's processes, forwards their streams, and holds the measuring lock.

Ray creates one on each host, from this source. ortune need not be installed there. The other end is ``ortune.cluster``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Dict, List, Optional, Tuple

from .relay import cache_folder

READ_BYTES = 1 << 16
HELD_BYTES = 8 << 20
"""Bytes of a stream that are buffered for ortune; a process that prints more has to wait."""
GAUGE_BYTES, GAUGE_TIMES = 1 << 20, 15
SET_BY_RAY = ("OMP_NUM_THREADS", "RAY_")
"""Prefixes of variables that Ray sets for workers; a thread count would affect the measurement."""


class _Stream:
    """One stream of a process, read by its own thread."""

    def __init__(self, pipe: Any, changed: "threading.Condition") -> None:
        self._pipe, self._changed = pipe, changed
        self._data = bytearray()
        self.ended = False
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def ready(self) -> bool:
        """Whether there is data to read."""
        return bool(self._data)

    def take(self) -> bytes:
        """Return the data that arrived since the last call."""
        data = bytes(self._data)
        self._data.clear()
        self._changed.notify_all()
        return data

    def _read(self) -> None:
        while True:
            data = os.read(self._pipe.fileno(), READ_BYTES)
            with self._changed:
                self._data += data
                self.ended = self.ended or not data
                self._changed.notify_all()
                if not data:
                    self._pipe.close()
                    return
                self._changed.wait_for(lambda: len(self._data) < HELD_BYTES)


class _Child:
    """A process with its buffered output."""

    def __init__(self, arguments: List[str], variables: Dict[str, str], folder: str) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(SET_BY_RAY)}
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(inherited, **variables),
            cwd=folder,
            start_new_session=True,
        )
        self.changed = threading.Condition()
        self.output = _Stream(self.process.stdout, self.changed)
        self.log = _Stream(self.process.stderr, self.changed)

    def end(self) -> None:
        """End the process, with its children."""
        if self.process.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        with self.changed:  # readers that wait for space then read to the end of their streams
            self.output.take()
            self.log.take()


class ClusterHost:
    """Ray actor that starts and controls ortune's processes on one host."""

    def __init__(self) -> None:
        self._children: Dict[int, _Child] = {}
        # Python also imports from its working directory, and Ray's may belong to another user.
        self._folder = tempfile.TemporaryDirectory(prefix="ortune-host-")
        self._guard = threading.Lock()
        self._lock: Optional[int] = None
        self._made = 0

    def niceness(self) -> int:
        """Return the niceness of this process, which its children inherit."""
        return os.nice(0) if hasattr(os, "nice") else 0

    def start(self, arguments: List[str], variables: Dict[str, str]) -> int:
        """Start a process of this interpreter; return its number on this host."""
        child = _Child(arguments, variables, self._folder.name)
        with self._guard:
            self._made += 1
            self._children[self._made] = child
            return self._made

    def write(self, number: int, data: bytes) -> bool:
        """Write to the stdin of a process; return whether it was open."""
        child = self._children.get(number)
        if child is None:  # it has ended
            return False
        try:
            child.process.stdin.write(data)  # type: ignore[union-attr]
            child.process.stdin.flush()  # type: ignore[union-attr]
        except (OSError, ValueError):
            return False
        return True

    def close(self, number: int) -> None:
        """Close the stdin of a process."""
        child = self._children.get(number)
        if child is not None:
            with contextlib.suppress(OSError):
                child.process.stdin.close()  # type: ignore[union-attr]

    def read(self, number: int, wait_s: float) -> Tuple[bytes, bytes, Optional[int]]:
        """Return the output of a process on stdout and stderr, and its exit code after both have ended.

        Args:
            number: Number of the process.
            wait_s: Longest wait for data, in seconds.
        """
        child = self._children[number]
        with child.changed:
            child.changed.wait_for(
                lambda: child.output.ready or child.log.ready or (child.output.ended and child.log.ended),
                wait_s,
            )
            output, log = child.output.take(), child.log.take()
            ended = child.output.ended and child.log.ended and not output and not log
        if not ended:
            return output, log, None
        code = child.process.wait()
        with self._guard:
            self._children.pop(number, None)
        return output, log, code

    def kill(self, number: int) -> None:
        """Kill a process and its descendants; do nothing if its number is unknown."""
        child = self._children.get(number)
        if child is not None:
            child.end()

    def has(self, digest: str) -> bool:
        """Return whether the cache contains the file with a SHA-256 digest."""
        folder = cache_folder()
        return bool(folder) and os.path.exists(os.path.join(folder, digest))

    def keep(self, digest: str, *parts: Any) -> bool:
        """Store a file in the cache, where processes find it by its digest; return whether it arrived intact."""
        folder = cache_folder()
        if not folder:
            return True  # each process then receives the file on its stdin
        found = hashlib.sha256()
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as part:
            for data in parts:
                found.update(data)
                part.write(data)
        if found.hexdigest() != digest:
            os.remove(part.name)
            return False
        shutil.move(part.name, os.path.join(folder, digest))
        return True

    def lock(self, what: str, budget_s: Optional[float]) -> Tuple[bool, bytes, float]:
        """Try to acquire the machine's measuring lock.

        Returns:
            Whether it was acquired; if not, the content of the lock file, and this machine's time in seconds since
            1970.
        """
        try:
            import fcntl
        except ImportError:
            return True, b"", 0.0
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        path = os.environ.get("ORTUNE_LOCK") or "/tmp/ortune.lock"
        try:
            try:
                fd = os.open(path, flags)
            except FileNotFoundError:
                fd = os.open(path, flags | os.O_CREAT, 0o666)
                with contextlib.suppress(PermissionError):
                    os.fchmod(fd, 0o666)  # for all users of the machine
        except OSError:
            return True, b"", 0.0
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held = os.pread(fd, 2000, 0)
            os.close(fd)
            return False, held, time.time()
        except OSError:  # a file system without locks
            os.close(fd)
            return True, b"", 0.0
        holder = {"what": what, "pid": os.getpid(), "since_s": time.time(), "budget_s": budget_s}
        with contextlib.suppress(OSError):  # a full disk: the lock is held, but its holder is not named
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps(holder).encode(), 0)
        self._lock = fd
        return True, b"", 0.0

    def unlock(self) -> None:
        """Release the host's measuring lock, if this object holds it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def gauge(self) -> int:
        """Return the duration of a fixed computation in nanoseconds, for a comparison of hosts of the same kind."""
        data = bytes(GAUGE_BYTES)
        times = []
        for _ in range(GAUGE_TIMES):
            began_ns = time.perf_counter_ns()
            hashlib.sha256(data).digest()
            times.append(time.perf_counter_ns() - began_ns)
        return min(times)
