"""Observes the processes of a program from outside, to find those that use ONNX Runtime but were not recorded."""

from __future__ import annotations

import math
import mmap
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ortune import monotonic
from ortune.recorder.doors import APPLY_VARIABLE, VARIABLE
from ortune.records import MissedProcess, MissedReason

STATIC = b"N11onnxruntime"
"""Part of the type names in every ONNX Runtime, including one that was linked into a program."""
LIBRARY = re.compile(r"onnxruntime[^/]*$", re.IGNORECASE)
"""Pattern of the paths of ONNX Runtime's libraries."""
STARTING_S = 1.0
"""Longest time in seconds between a child's fork and its exec."""
TICK_S = 0.05
"""Seconds between two readings of a program's processes."""
CLOSE_S = 0.005
"""Seconds between two readings of a young Python process that the recorder cannot enter."""
YOUNG_S = 5.0
AGAIN_S = 0.5
"""Seconds between two readings of a process that has reported."""
UNSEEN_S = 0.03
"""Seconds in which a process with NumPy can load, use and unload ONNX Runtime unnoticed."""
UNSEEN_BEFORE_S = 0.25
"""Seconds in which a process without NumPy can load NumPy and ONNX Runtime, and use and unload them unnoticed."""
MOST_SCANNED_BYTES = 2 << 30
_SYSTEM = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")
_PACKAGES = ("-packages/", "/site-packages/")
_PYTHON = re.compile(r"(python|pypy)[\d.]*(-dbg|t)?$")
_OLDEST = (3, 8)
_SHUT: Final = frozenset(
    ("isolated", "environment-cleared", "other-recording", "path-replaced", "old-python")
)


@dataclass(slots=True, kw_only=True)
class ObservedProcess:
    """A process of the program, as observed from outside.

    Attributes:
        pid, start: Process id, and the start of the process in ticks, since ids are reused.
        argv: Command line.
        environment: Relevant variables of its environment at its start; None if not readable.
        executable: Path of its program.
        mapped: Paths of mapped files with code.
        cpu_ns: CPU time in nanoseconds.
        parent: Process id of its parent at the last reading.
        first_s, looked_s: Times of the first and the last reading.
        gone_s: Time when its end was first noticed; infinite while it runs.
    """

    pid: int
    start: int
    argv: tuple[str, ...] = ()
    environment: dict[str, str] | None = None
    executable: str = ""
    mapped: set[str] = field(default_factory=set)
    cpu_ns: int = 0
    parent: int = 0
    first_s: float = 0.0
    looked_s: float = 0.0
    gone_s: float = math.inf

    @property
    def libraries(self) -> list[str]:
        """Mapped files of ONNX Runtime."""
        return sorted(path for path in self.mapped if LIBRARY.search(path))

    @property
    def unseen_s(self) -> float:
        """Seconds without a reading in which the process could have used ONNX Runtime unnoticed."""
        return UNSEEN_S if any("/numpy/" in path for path in self.mapped) else UNSEEN_BEFORE_S


class ProcessWatch:
    """Observer of the processes of one program.

    Args:
        root: Id of its first process.
        folder: The folder of the recording.
        door: Folder of the recorder on the search path.
        variable: Variable with the folder of the recording.
    """

    def __init__(self, root: int, folder: Path, door: Path, variable: str = VARIABLE) -> None:
        self.root, self.folder, self.door, self.variable = root, folder, door, variable
        self.seen: dict[tuple[int, int], ObservedProcess] = {}
        self._alive: set[tuple[int, int]] = set()
        self._close: list[ObservedProcess] = []
        self._whole_s = -math.inf

    def look(self) -> float:
        """Read the current processes of the program, and return the seconds until the next reading.

        Most readings cover only the processes that cannot be recorded and might load ONNX Runtime briefly.
        """
        if self._close and monotonic.now_s() - self._whole_s < TICK_S:
            self.look_closely()
        else:
            self._look_at_all()
        now_s = monotonic.now_s()
        self._close = [
            process
            for process in self._close
            if math.isinf(process.gone_s) and not process.libraries and now_s - process.first_s < YOUNG_S
        ]
        return CLOSE_S if self._close else TICK_S

    def look_closely(self) -> None:
        """Read the young processes that the recorder cannot enter."""
        for process in self._close:
            now_s = monotonic.now_s()
            if _key(process.pid) == (process.pid, process.start) and _look_at(process):
                process.looked_s = now_s
            else:
                process.gone_s = now_s

    def _look_at_all(self) -> None:
        self.look_closely()
        self._whole_s = monotonic.now_s()
        reported = self.reported()
        found = {key for pid in descendants(self.root) if (key := _key(pid))}
        # A daemon leaves its parent but still belongs to the program.
        found |= {key for key in self._alive if _key(key[0]) == key}
        self._alive = found
        for pid, start in found:
            now_s = monotonic.now_s()
            process = self.seen.setdefault((pid, start), ObservedProcess(pid=pid, start=start, first_s=now_s))
            if pid not in reported or now_s - process.looked_s > AGAIN_S:
                process.looked_s = now_s
                _look_at(process)
        self._close = [
            self.seen[key] for key in found if key[0] not in reported and self._is_shut(self.seen[key])
        ]

    def reported(self) -> set[int]:
        """Return the ids of the processes that wrote a log."""
        return {int(path.name.partition("-")[0]) for path in self.folder.glob("*.log")}

    def loading(self) -> set[int]:
        """Return the ids of the processes that began to import ONNX Runtime with the recorder."""
        return {int(path.stem) for path in self.folder.glob("*.loading")}

    def missed(self, homes: Mapping[int, tuple[str, ...]]) -> tuple[MissedProcess, ...]:
        """Return the processes that use ONNX Runtime but wrote no log.

        Args:
            homes: Folders of the recorded ONNX Runtime libraries, by process id.
        """
        found = []
        scan = _Scan()
        loading = self.loading()
        argv = {process.pid: process.argv for process in self.seen.values()}
        for process in self.seen.values():
            # Between fork and exec a child looks like its parent.
            starting = (
                process.looked_s - process.first_s < STARTING_S and argv.get(process.parent) == process.argv
            )
            if starting and process.parent in homes and process.pid not in homes:
                continue
            home = homes.get(process.pid)
            libraries = process.libraries
            if home is not None:
                other = [path for path in libraries if not path.startswith(home) and ".so" in path]
                if other:
                    found.append(_missed(process, other[0], "own-library"))
                continue
            library = libraries[0] if libraries else scan.first(process)
            if library:
                reason = self._reason(process, bool(libraries))
                # A process that ended during the import has not used ONNX Runtime.
                if reason != "unknown" or process.pid not in loading:
                    found.append(_missed(process, library, reason))
            elif math.isfinite(process.gone_s) and process.gone_s - process.looked_s > process.unseen_s:
                found.append(_missed(process, "", "unseen"))
        return tuple(found)

    def _is_shut(self, process: ObservedProcess) -> bool:
        """Return whether a Python process cannot load the recorder."""
        return self._reason(process, True) in _SHUT

    def _reason(self, process: ObservedProcess, shared: bool) -> MissedReason:
        environment, flags = process.environment or {}, _flags(process.argv)
        python = _PYTHON.search(process.executable) is not None
        for_python = any("pybind11" in path for path in process.libraries)
        old = any(_is_old(path) for path in (process.executable, *process.mapped))
        doors = environment.get("PYTHONPATH", "").split(os.pathsep)
        reasons: list[tuple[bool, MissedReason]] = [
            (any("/_MEI" in path for path in process.mapped) or (for_python and not python), "frozen"),
            (not python, "not-python" if shared else "static"),
            ("I" in flags or "E" in flags, "isolated"),
            ("S" in flags, "no-site"),
            (process.environment is None, "unknown"),
            (self.variable not in environment, "environment-cleared"),
            (environment.get(self.variable) != str(self.folder), "other-recording"),
            (str(self.door) not in doors, "path-replaced"),
            (old, "old-python"),
            (not shared, "static"),
            (not for_python, "own-library"),  # its functions were not looked up by name in all libraries
        ]
        return next((reason for applies, reason in reasons if applies), "unknown")


def homes_of(homes: Iterable[tuple[int, str]]) -> dict[int, tuple[str, ...]]:
    """Return the folders of ONNX Runtime with links resolved, by process id."""
    found: dict[int, tuple[str, ...]] = {}
    for pid, home in homes:
        found[pid] = (*found.get(pid, ()), os.path.realpath(home) + os.sep)
    return found


def _missed(process: ObservedProcess, library: str, reason: MissedReason) -> MissedProcess:
    return MissedProcess(pid=process.pid, argv=process.argv, library=library, reason=reason)


class _Scan:
    """Searches programs and libraries for a linked ONNX Runtime, reading each file once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], bool] = {}
        self._bytes = 0

    def first(self, process: ObservedProcess) -> str:
        """Return the first file of a process that contains ONNX Runtime; "" if there is none."""
        paths = [process.executable, *sorted(path for path in process.mapped if _is_foreign(path))]
        return next((path for path in paths if path and self._contains(path)), "")

    def _contains(self, path: str) -> bool:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            status = os.fstat(fd)
            key = status.st_dev, status.st_ino
            if key not in self._known:
                self._bytes += status.st_size
                if self._bytes > MOST_SCANNED_BYTES or not status.st_size:
                    return False
                with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as content:
                    self._known[key] = content.find(STATIC) >= 0
            return self._known[key]
        except (OSError, ValueError):
            return False
        finally:
            os.close(fd)


def _is_foreign(path: str) -> bool:
    """Return whether a library belongs neither to the system nor to Python itself."""
    return any(part in path for part in _PACKAGES) or not path.startswith(_SYSTEM)


def _is_old(path: str) -> bool:
    match = re.search(r"python(\d)\.(\d+)", path)
    return match is not None and (int(match[1]), int(match[2])) < _OLDEST


def _flags(argv: tuple[str, ...]) -> str:
    """Return the letters of all single-letter options on an interpreter's command line."""
    letters = ""
    for word in argv[1:]:
        if not word.startswith("-") or word.startswith("--") or word == "-":
            break
        own = re.match(r"-([a-zA-Z]*)", word)
        letters += own[1] if own else ""
        if re.search("[cm]", word):
            break
    return letters


def _look_at(process: ObservedProcess) -> bool:
    """Read a process from /proc, and return whether it still runs."""
    place = Path("/proc") / str(process.pid)
    try:
        executable = str((place / "exe").readlink()).removesuffix(" (deleted)")
        words = (place / "cmdline").read_bytes()[:4096].decode("utf-8", "backslashreplace").split("\0")
        argv = tuple(words[:-1])
        if (executable, argv) != (process.executable, process.argv):
            process.mapped.clear()  # these belong to the previous program of the process
        process.executable, process.argv = executable, argv
        process.environment = _environment((place / "environ").read_bytes())
        for line in (place / "maps").read_text(encoding="utf-8", errors="backslashreplace").splitlines():
            fields = line.split(None, 5)
            if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
                process.mapped.add(fields[5].removesuffix(" (deleted)"))
        ticks = (place / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        process.parent = int(ticks[1])
        process.cpu_ns = (int(ticks[11]) + int(ticks[12])) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return False
    return True


def _environment(data: bytes) -> dict[str, str] | None:
    pairs = (entry.partition("=") for entry in data.decode("utf-8", "backslashreplace").split("\0") if entry)
    names = {VARIABLE, APPLY_VARIABLE, "PYTHONPATH"}
    return {name: value for name, _, value in pairs if name in names}


def descendants(root: int) -> list[int]:
    """Return the ids of a process and its descendants."""
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        tasks = Path("/proc") / str(pid) / "task"
        try:
            for task in tasks.iterdir():
                children = (task / "children").read_text(encoding="ascii")
                waiting += map(int, children.split())
        except (OSError, ValueError):
            continue
    return found


def _key(pid: int) -> tuple[int, int] | None:
    try:
        text = (Path("/proc") / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        return pid, int(text.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
