"""Communication with ortune: JSON lines on the original stdout; all other output goes to the log.

ONNX Runtime's C++ log writes to file descriptor 2 and its "EP Error" banner is printed on stdout, so
stdout is moved out of the way before anything is imported.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from typing import Any, Dict

VERSION = 2


class Stop(Exception):
    """Exception that ends the trial with one ``error`` message."""

    def __init__(self, reason: str, what: str, knob: str = "") -> None:
        super().__init__(what)
        self.reason = reason
        self.what = what
        self.knob = knob


class Link:
    """The worker's end of the connection to ortune."""

    def __init__(self) -> None:
        self._out = os.dup(1)
        os.set_inheritable(self._out, False)
        os.dup2(2, 1)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        self.phase = "starting"
        self._commands: "queue.SimpleQueue[bytes]" = queue.SimpleQueue()

    def send(self, message: str, **fields: Any) -> None:
        """Write one message; a closed pipe means that ortune has ended."""
        line = json.dumps(dict(fields, message=message), separators=(",", ":")) + "\n"
        data = line.encode("utf-8")
        # A pipe accepts only as much as it has space for.
        while data:
            data = data[os.write(self._out, data) :]

    def read_request(self) -> Dict[str, Any]:
        """Read the request, the first line on stdin, then start to listen for commands."""
        request = self.first_line()
        self.listen()
        return request

    def first_line(self) -> Dict[str, Any]:
        """Read the request, while the process has only one thread."""
        line = sys.stdin.buffer.readline()
        if not line:
            os._exit(3)
        request: Dict[str, Any] = json.loads(line.decode("utf-8"))
        if request.get("version") != VERSION:
            raise Stop(
                "protocol", "ortune speaks version %r, this worker %d" % (request.get("version"), VERSION)
            )
        return request

    def listen(self) -> None:
        """Start a thread that reads the following lines."""
        threading.Thread(target=self._listen, daemon=True).start()

    def next_command(self) -> Dict[str, Any]:
        """Wait for the next command from ortune."""
        command: Dict[str, Any] = json.loads(self._commands.get().decode("utf-8"))
        return command

    def _listen(self) -> None:
        """Read commands as they come, also while one is running; the end of stdin means that ortune has ended."""
        for line in sys.stdin.buffer:
            self._commands.put(line)
        os._exit(3)


def die_with_parent() -> None:
    """Ask Linux to kill this process when ortune dies, even by kill -9."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes
    import signal

    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
