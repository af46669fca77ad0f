"""Dependencies of a Linux shared library: the names in its dynamic section, read without loading it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

_LOAD, _DYNAMIC = 1, 2  # types of segments
_END, _NEEDED, _STRINGS, _STRINGS_SIZE = 0, 1, 5, 10  # tags of the dynamic section
_MOST_BYTES = 1 << 20


def needed(library: Path) -> tuple[str, ...]:
    """Return the names of the libraries that a library is linked to, in order; () if it is not a 64-bit ELF file."""
    try:
        with library.open("rb") as file:
            return _needed(file)
    except (OSError, struct.error, ValueError, KeyError, StopIteration, MemoryError):
        return ()


def _needed(file: BinaryIO) -> tuple[str, ...]:
    header = file.read(64)
    if header[:6] != b"\x7fELF\x02\x01":
        return ()
    (start,) = struct.unpack_from("<Q", header, 32)
    size, count = struct.unpack_from("<HH", header, 54)
    segments = []
    for number in range(count):
        file.seek(start + number * size)
        # A program header of 64 bits: type, flags, offset in the file, virtual and physical address, size in
        # the file.
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", file.read(size))
        segments.append((kind, offset, address, length))
    dynamic = next(((offset, length) for kind, offset, _, length in segments if kind == _DYNAMIC), None)
    if dynamic is None:
        return ()
    entries = list(struct.iter_unpack("<QQ", _read(file, *dynamic)))
    tags = dict(entries)
    address, length = tags[_STRINGS], tags[_STRINGS_SIZE]
    # The table's address is an address in memory; the enclosing segment maps it to an offset in the file.
    place = next(o + address - a for kind, o, a, n in segments if kind == _LOAD and a <= address < a + n)
    strings = _read(file, place, length)
    names = [value for tag, value in entries if tag == _NEEDED]
    return tuple(strings[at : strings.index(b"\0", at)].decode("utf-8", "replace") for at in names)


def _read(file: BinaryIO, place: int, length: int) -> bytes:
    if not 0 < length <= _MOST_BYTES:
        raise ValueError("no such table is that long")
    file.seek(place)
    return file.read(length)
