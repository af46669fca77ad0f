"""Digests of model files, computed while the program runs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from ortune import files
from ortune.recorder.events import parse

_BLOCK_BYTES = 1 << 20


class Digests:
    """The sha256 of model files, computed while the program runs, because the program may remove a file."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, int], str] = {}
        self._read: dict[Path, int] = {}

    def follow(self, folder: Path) -> None:
        """Compute the digests of the models in new lines of all logs."""
        for path in folder.glob("*.log"):
            with files.open_file(path) as file:
                file.seek(self._read.get(path, 0))
                data = file.read()
            whole = data.rpartition(b"\n")[0]
            self._read[path] = self._read.get(path, 0) + (len(whole) + 1 if whole else 0)
            for line in whole.split(b"\n"):
                if line.startswith(b'{"e":"model"'):
                    for event in parse(line):
                        self.sha256(json.loads(event.v))

    def sha256(self, model: dict[str, Any]) -> str:
        """Return the sha256 of a model that a log describes; "" if its file is missing or was changed."""
        if model.get("sha256"):
            return str(model["sha256"])
        if "mtime_ns" not in model:
            return ""
        key = model["path"], model["bytes"], model["mtime_ns"]
        if key not in self._known:
            self._known[key] = _digest(*key)
        return self._known[key]


def _digest(path: str, size_bytes: int, mtime_ns: int) -> str:
    try:
        status = Path(path).stat()
        if (status.st_size, status.st_mtime_ns) != (size_bytes, mtime_ns):
            return ""
        digest = hashlib.sha256()
        with files.open_file(Path(path)) as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
        return digest.hexdigest()
    except OSError:
        return ""
