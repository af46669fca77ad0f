"""Remote side of a trial in an interpreter without access to ortune's files: on a board, in a container or in a pod.

It is sent as text to an interpreter that is reachable only through stdin and stdout. It receives files, starts the
worker, forwards its lines in both directions, and sends the worker's files before the line that reports its end. The
worker is unaware of it.
"""

from __future__ import annotations

import base64
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
import zipfile
from typing import IO, Any, Dict, Optional

FOLDER = "//ortune-relay//"
"""Placeholder in messages for the relay's folder on this machine."""
OUTPUT = "output"
"""Folder of the worker's output, which is sent back at its end."""
UNPACKED, GONE = ".packages", ".gone-"
KEPT_S = 86_400
"""Seconds after which an unused file of the cache is removed; files are cached by content between trials."""
CHUNK = 1 << 20
CPUS_READ, ZONES_READ = 4, 16
TEXT_BYTES = 8192
SENSORS = ("proc/loadavg", "proc/pressure/cpu", "proc/stat", "proc/meminfo", "proc/cpuinfo")
SENSORS_OF_CPUS = (
    "cpufreq/scaling_cur_freq", "cpufreq/scaling_governor", "thermal_throttle/core_throttle_count",
    "thermal_throttle/package_throttle_count",
)  # fmt: skip


class Relay:
    """Starter and forwarder of one worker on this machine, with its files."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="ortune-")
        self.kept = cache_folder() or os.path.join(self.folder, "kept")
        self.worker: Optional["subprocess.Popen[bytes]"] = None
        self._digests: Dict[str, str] = {}
        self._busy = threading.RLock()  # held by a command, so no files are removed meanwhile

    def listen(self) -> None:
        """Carry out ortune's commands until the end of stdin."""
        _remove_old(self.kept)
        _write(b"\n")  # the console has left its prompt on the line
        say(relay="ready")
        for line in sys.stdin.buffer:
            with self._busy:
                try:
                    self._carry_out(line)
                except Exception as error:  # the console would print it and continue; ortune would wait
                    sys.stderr.write("the relay failed: %s: %s\n" % (type(error).__name__, error))
                    self._leave(3)
        self._leave(3)

    def _carry_out(self, line: bytes) -> None:
        command = json.loads(line.decode("utf-8")) if line.startswith(b'{"relay"') else {}
        if not command:
            self._tell_worker(line)
        elif command["relay"] == "file":
            self._take(command)
        elif command["relay"] == "folder":
            os.makedirs(self._path(command["path"]), exist_ok=True)
        elif command["relay"] == "start":
            self._start(command)
        elif command["relay"] == "sensors":
            say(relay="sensors", texts=sensor_texts())
        elif self.worker is not None and hasattr(os, "killpg"):
            with contextlib.suppress(OSError):
                os.killpg(self.worker.pid, signal.SIGSTOP if command["relay"] == "sleep" else signal.SIGCONT)

    def _take(self, command: Dict[str, Any]) -> None:
        """Receive a file; its content is requested only if it is not cached."""
        content, place = os.path.join(self.kept, command["sha256"]), self._path(command["path"])
        there = os.path.exists(content)
        say(relay="send", wanted=not there)
        if not there:
            part = os.path.join(self.folder, "part")
            with open(part, "wb") as file:
                digest = self._receive(file, command["bytes"])
            if digest != command["sha256"]:
                sys.stderr.write("%s arrived damaged\n" % command["path"])
                self._leave(3)
            os.makedirs(self.kept, mode=0o700, exist_ok=True)
            # Under a name of its own first: another relay on this machine must never read half a file.
            shutil.move(part, content + str(os.getpid()))  # perhaps from another file system
            os.replace(content + str(os.getpid()), content)
        os.utime(content)
        self._digests[place] = command["sha256"]
        os.makedirs(os.path.dirname(place), exist_ok=True)
        try:
            os.link(content, place)
        except OSError:  # two file systems, or one without links
            shutil.copyfile(content, place)

    def _receive(self, file: "IO[bytes]", left: int) -> str:
        """Copy ``left`` bytes from stdin to a file; return their SHA-256 digest."""
        digest = hashlib.sha256()
        while left:
            data = sys.stdin.buffer.read(min(left, CHUNK))
            if not data:
                self._leave(3)
            digest.update(data)
            file.write(data)
            left -= len(data)
        return digest.hexdigest()

    def _start(self, command: Dict[str, Any]) -> None:
        work = self._path("work")
        os.makedirs(work)
        environment = dict(os.environ, **command["environment"])
        if command.get("packages"):
            paths = [self._unpacked(self._path(command["packages"])), environment.get("PYTHONPATH", "")]
            environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        self.worker = subprocess.Popen(
            [sys.executable, self._path(command["program"]), *command["arguments"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=work,
            env=environment,
            start_new_session=True,
        )
        threading.Thread(target=self._hand_on, args=(self.worker,), daemon=True).start()

    def _unpacked(self, archive: str) -> str:
        """Return the folder with the content of a received archive; the folder is cached like a file."""
        folder = os.path.join(self.kept, self._digests[archive] + UNPACKED)
        with contextlib.suppress(OSError):  # it is missing, or another relay has just removed it
            os.utime(folder)
            return folder
        part = tempfile.mkdtemp(prefix=UNPACKED, dir=self.kept)
        try:
            with zipfile.ZipFile(archive) as content:
                content.extractall(part)
            with contextlib.suppress(OSError):  # another relay was first
                os.rename(part, folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        os.utime(folder)
        return folder

    def _tell_worker(self, line: bytes) -> None:
        assert self.worker is not None and self.worker.stdin is not None
        # A worker that died before reading leaves a broken pipe; its exit status is reported later.
        with contextlib.suppress(OSError):
            self.worker.stdin.write(line.replace(FOLDER.encode(), _inside(self.folder)))
            self.worker.stdin.flush()

    def _hand_on(self, worker: "subprocess.Popen[bytes]") -> None:
        """Forward the worker's lines, and report its exit if it sent no final message."""
        assert worker.stdout is not None
        phase, ended = "loading", False
        for line in worker.stdout:
            message = _message(line)
            if message == "loaded":
                phase = "running"
            if message in ("done", "tool-done"):
                self._send_back()
            ended = ended or message in ("done", "tool-done", "error")
            _write(line.replace(_inside(self.folder), FOLDER.encode()))
        code = worker.wait()
        if not ended:
            killed = code == -getattr(signal, "SIGKILL", 9)
            how = "was killed by signal %d" % -code if code < 0 else "exited with code %d" % code
            what = "the worker %s while %s" % (how, phase)
            say(message="error", reason="out-of-memory" if killed else "crash", what=what, phase=phase)
        self._leave(0)

    def _send_back(self) -> None:
        top = self._path(OUTPUT)
        for folder, _, names in os.walk(top):
            for name in sorted(names):
                path = os.path.join(folder, name)
                parts = os.path.relpath(path, top).split(os.sep)
                with open(path, "rb") as file:
                    data = file.read(CHUNK)
                    say(relay="back", path=parts, first=True, data=base64.b64encode(data).decode())
                    while data:
                        data = file.read(CHUNK)
                        if data:
                            say(relay="back", path=parts, first=False, data=base64.b64encode(data).decode())

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, *name.split("/"))

    def _leave(self, code: int) -> None:
        """End this process once, after stopping the worker and removing all files except the cached ones."""
        with self._busy:
            if self.worker is not None and self.worker.poll() is None:
                with contextlib.suppress(OSError):
                    os.killpg(self.worker.pid, signal.SIGKILL) if hasattr(
                        os, "killpg"
                    ) else self.worker.kill()
                self.worker.wait()
            shutil.rmtree(self.folder, ignore_errors=True)
            sys.stdout.flush()
            os._exit(code)


def sensor_texts() -> Dict[str, str]:
    """Return the beginning of the files of /proc and /sys about load, clocks and temperature, if they exist."""
    cpus = [
        "sys/devices/system/cpu/cpu%d/%s" % (n, name) for n in range(CPUS_READ) for name in SENSORS_OF_CPUS
    ]
    zones = ["sys/class/thermal/thermal_zone%d/temp" % n for n in range(ZONES_READ)]
    texts = {}
    for name in [*SENSORS, *cpus, *zones]:
        try:
            with open("/" + name, "rb") as file:
                texts[name] = file.read(TEXT_BYTES).decode("ascii", "replace")
        except OSError:
            pass
    return texts


def say(**message: Any) -> None:
    """Write one message to ortune."""
    _write(json.dumps(message).encode("utf-8") + b"\n")


_speaks = threading.Lock()


def _write(line: bytes) -> None:
    with _speaks:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def _message(line: bytes) -> str:
    """Return the kind of a worker's message; "" if the line is not a message."""
    try:
        message = json.loads(line.decode("utf-8"))
    except ValueError:
        return ""
    return str(message.get("message", "")) if isinstance(message, dict) else ""


def _inside(folder: str) -> bytes:
    """Return a folder and its separator as they appear in JSON."""
    return json.dumps(folder + "/")[1:-1].encode("utf-8")


def cache_folder() -> str:
    """Return the user's folder for files cached by content; "" if there is none."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(home, "ortune-relay")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError:
        return ""
    return folder if os.access(folder, os.W_OK) else ""


def _remove_old(folder: str) -> None:
    """Remove cached files and folders that were not used for a day; other relays may do so at the same time."""
    for number, name in enumerate(os.listdir(folder) if os.path.isdir(folder) else ()):
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            if os.path.getmtime(path) > time.time() - KEPT_S:
                continue
            if not os.path.isdir(path):
                os.remove(path)
                continue
            # Renamed first: a folder that is partly removed is never taken for a complete one.
            gone = os.path.join(folder, "%s%d-%d" % (GONE, os.getpid(), number))
            os.rename(path, gone)
            shutil.rmtree(gone, ignore_errors=True)
