"""The worker as one zipapp, which can be sent to any host, and unpacked for the interpreters of this one."""

from __future__ import annotations

import functools
import io
import shutil
import zipfile
from pathlib import Path

ROOM_BYTES = 16 << 20
PACKAGE = "ortune_worker"
ENTRY = f"""\
import sys
if sys.argv[1:] == ["tool"]:
    from {PACKAGE}.tool import main
else:
    from {PACKAGE}.main import main
main()
"""


@functools.cache
def worker_bytes() -> bytes:
    """The zipapp. Equal sources give equal bytes."""
    folder = Path(__file__).parent.parent / "worker"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, "__main__.py", ENTRY.encode())
        for source in sorted(folder.glob("*.py")):
            _add(archive, f"{PACKAGE}/{source.name}", source.read_bytes())
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), data)


def write_worker(folder: Path) -> Path:
    """Puts the worker into a folder and returns what to start.

    Unpacked, since an interpreter keeps the bytecode of a folder's modules; those of a zip file it compiles each
    time, which was 40 of the 150 ms that a worker took to start. Where room is short it stays a zip file: Python 3.11
    leaves half a file of bytecode on a full disk without a word, and the next worker dies of it.
    """
    if not _has_room(folder):
        packed = folder / "ortune-worker.pyz"
        packed.write_bytes(worker_bytes())
        return packed
    path = folder / "ortune-worker"
    with zipfile.ZipFile(io.BytesIO(worker_bytes())) as archive:
        archive.extractall(path)
    return path


def _has_room(folder: Path) -> bool:
    """Whether the bytecode of the worker can be written with certainty."""
    try:
        import resource

        limited = resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY
    except ImportError:  # Windows knows no such limit
        limited = False
    return not limited and shutil.disk_usage(folder).free > ROOM_BYTES
