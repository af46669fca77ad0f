"""Entries of a zip file that cannot unpack to more than its size, and objects of its JSON documents."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from typing import Any

from .source import SourceRefused


def stored_entries(archive: zipfile.ZipFile, size: int, saver: str) -> list[zipfile.ZipInfo]:
    """Return the entries of an archive that must be uncompressed.

    Args:
        archive: The archive.
        size: Size of its file in bytes.
        saver: Function that writes such files, as users call it.

    Raises:
        SourceRefused: The archive would unpack to more than its size, or has two entries with the same name.
    """
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    if len(set(names)) != len(names):
        raise SourceRefused("the archive has two entries with the same name", "save it again with %s" % saver)
    packed = [entry.filename for entry in entries if entry.compress_type != zipfile.ZIP_STORED]
    unpacked = sum(entry.file_size for entry in entries)
    if packed or unpacked > size:
        what = "%r is compressed" % packed[0][:200] if packed else "its entries overlap"
        raise SourceRefused(
            "the archive unpacks to %.1f MB from %.1f MB: %s" % (unpacked / 1e6, size / 1e6, what),
            "save it again with %s, which compresses nothing" % saver,
        )
    return entries


def objects(document: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a JSON document."""
    waiting = [document]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
