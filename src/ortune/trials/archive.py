"""The worker as one zipapp: started under any interpreter, and later sent to any host."""

from __future__ import annotations

import functools
import io
import zipfile
from pathlib import Path

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
    """Writes the zipapp into a folder and returns its path."""
    path = folder / "ortune-worker.pyz"
    path.write_bytes(worker_bytes())
    return path
