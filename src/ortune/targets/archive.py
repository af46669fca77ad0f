"""Zipapps of the worker and of framework processes, and the environment variables of their processes."""

from __future__ import annotations

import functools
import io
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from ortune.records import Applied
from ortune.runtimes.environment import clean_environment

PRELOAD_VARIABLE = "DYLD_INSERT_LIBRARIES" if sys.platform == "darwin" else "LD_PRELOAD"
ROOM_BYTES = 16 << 20
PACKAGE = "ortune_worker"
ENTRY = f"""\
import sys
if sys.argv[1:] == ["tool"]:
    from {PACKAGE}.tool import main
elif sys.argv[1:] == ["play"]:
    from {PACKAGE}.replay import main
elif sys.argv[1:] == ["play-soak"]:
    from {PACKAGE}.replay_soak import main
elif sys.argv[1:] == ["soak"]:
    from {PACKAGE}.soak import main
else:
    from {PACKAGE}.main import main
main()
"""


SOURCES = "ortune_sources"
SOURCES_ENTRY = f"""\
from {SOURCES}.sources.main import main
main()
"""
_ROOMS = Path(__file__).parent.parent


@functools.cache
def worker_bytes() -> bytes:
    """Return the worker's zipapp; equal sources give equal bytes."""
    return _zipapp(ENTRY, {PACKAGE: "worker"})


@functools.cache
def sources_bytes() -> bytes:
    """Return the zipapp that runs in a framework's process; it includes the worker's modules."""
    return _zipapp(SOURCES_ENTRY, {f"{SOURCES}/worker": "worker", f"{SOURCES}/sources": "sources"})


def _zipapp(entry: str, packages: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, "__main__.py", entry.encode())
        for package, room in packages.items():
            for source in sorted((_ROOMS / room).glob("*.py")):
                _add(archive, f"{package}/{source.name}", source.read_bytes())
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), data)


def write_worker(folder: Path) -> Path:
    """Write the worker into a folder unless it exists, and return the path to start."""
    return _write(folder, "ortune-worker", worker_bytes)


def write_sources(folder: Path) -> Path:
    """Write the zipapp for a framework's process into a folder unless it exists, and return the path to start."""
    return _write(folder, "ortune-sources", sources_bytes)


def _write(folder: Path, name: str, data: Callable[[], bytes]) -> Path:
    """Write a zipapp into a folder unless it exists, and return the path to start.

    The zipapp is unpacked, since interpreters cache the bytecode of modules in a folder but recompile modules in a zip
    file, which took 40 of the 150 ms of a worker's start. If disk space is short, it remains a zip file: Python 3.11
    silently writes truncated bytecode on a full disk, which makes the next worker fail.
    """
    for program in (folder / name, folder / f"{name}.pyz"):
        if program.exists():
            return program
    # Renamed when complete, since another trial may start from it at any time.
    part = Path(tempfile.mkdtemp(dir=folder))
    if not _has_room(folder):
        (part / "packed").write_bytes(data())
        return (part / "packed").rename(folder / f"{name}.pyz")
    with zipfile.ZipFile(io.BytesIO(data())) as archive:
        archive.extractall(part)
    return part.rename(folder / name)


def _has_room(folder: Path) -> bool:
    """Return whether there is certainly enough disk space for the worker's bytecode."""
    try:
        import resource

        limited = resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY
    except ImportError:  # Windows has no such limit
        limited = False
    return not limited and shutil.disk_usage(folder).free > ROOM_BYTES


def variables(settings: tuple[Applied, ...]) -> dict[str, str]:
    """Return the variables to add to a worker's environment: those that ortune always sets, and the plan's."""
    return clean_environment(_environment_of(settings), base={})


def environment(settings: tuple[Applied, ...]) -> dict[str, str]:
    """Return the complete environment of a worker: this process's variables after cleaning, and the plan's."""
    return clean_environment(_environment_of(settings))


def _environment_of(settings: tuple[Applied, ...]) -> dict[str, str]:
    extra = {item.key: str(item.value) for item in settings if item.channel == "env"}
    preloads = [str(item.value) for item in settings if item.channel == "preload"]
    if preloads:
        extra[PRELOAD_VARIABLE] = ":".join(preloads)
    return extra
