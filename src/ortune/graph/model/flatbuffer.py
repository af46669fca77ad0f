"""A read-only flatbuffer reader for untrusted files: every offset is checked before it is followed.

A flatbuffer is read in place: a table is a position with a vtable of field (slot) offsets. Wrong offsets in a damaged
file would otherwise read other data as the model, loop forever, or leave the buffer.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator

from ortune.errors import ModelError

MAX_DEPTH = 100
"""Maximum nesting depth of tables, far above that of real models."""


class Flatbuffer:
    """A flatbuffer file with one root table."""

    def __init__(self, buffer: mmap.mmap | bytes, where: str) -> None:
        self.buffer = buffer
        self.size = len(buffer)
        self.where = where
        # Offsets only point forward, so there are no cycles, but shared tables could be nested into endless work.
        # Writers share vtables and strings but never tables, and a table takes at least four bytes.
        self._tables_left = self.size // 4 + 1

    def root(self) -> FlatbufferTable:
        """Return the root table, to which the first four bytes point."""
        return FlatbufferTable(self, self.follow(0), 0)

    def number(self, code: str, at: int) -> int:
        """Return a little-endian integer, given its ``struct`` code."""
        size = struct.calcsize(code)
        self.check(at, size)
        value = struct.unpack_from("<" + code, self.buffer, at)[0]
        assert isinstance(value, int)
        return value

    def follow(self, at: int) -> int:
        """Return the target of the offset stored at a position; offsets are relative and only point forward."""
        offset = self.number("I", at)
        if offset == 0:
            raise self.damaged(at, "an offset is zero")
        self.check(at + offset, 4)
        return at + offset

    def check(self, at: int, size: int) -> None:
        """Raise ModelError unless ``size`` bytes exist at a position."""
        if at < 0 or size < 0 or at + size > self.size:
            raise self.damaged(at, f"{size} bytes are needed there, and the file has {self.size}")

    def count_table(self, at: int, depth: int) -> None:
        """Count a table; raise ModelError for more or deeper tables than a file of this size can contain."""
        self._tables_left -= 1
        if self._tables_left < 0:
            raise self.damaged(at, "two of its tables share bytes, which no writer produces")
        if depth > MAX_DEPTH:
            raise self.damaged(at, f"its tables nest deeper than {MAX_DEPTH} levels")

    def damaged(self, at: int, what: str) -> ModelError:
        """Return the error for damage at a position."""
        return ModelError(
            f"The ORT-format file is truncated or damaged: {what}.",
            where=f"{self.where}, byte {at}",
            do="Convert the .onnx again (ortune convert MODEL.onnx --to ort --for PLACE), "
            "or download the file again.",
        )


class FlatbufferTable:
    """A table of a flatbuffer; slots count from 0 in schema order, and absent fields have their default values."""

    __slots__ = ("_depth", "_file", "_position", "_vtable", "_vtable_bytes")

    def __init__(self, file: Flatbuffer, position: int, depth: int) -> None:
        file.count_table(position, depth)
        self._file = file
        self._position = position
        self._depth = depth
        # Signed and subtracted, unlike all other offsets: the vtable may precede or follow its table.
        self._vtable = position - file.number("i", position)
        self._vtable_bytes = file.number("H", self._vtable)
        if self._vtable_bytes < 4 or self._vtable_bytes % 2:
            raise file.damaged(self._vtable, "a table has no valid vtable")
        file.check(self._vtable, self._vtable_bytes)

    def _field(self, slot: int) -> int | None:
        # A vtable starts with its own length and its table's, two bytes each, then has two bytes per field; writers
        # of older schemas write fewer fields.
        entry = 4 + 2 * slot
        if entry + 2 > self._vtable_bytes:
            return None
        offset = self._file.number("H", self._vtable + entry)
        return self._position + offset if offset else None

    def _target(self, slot: int) -> int | None:
        at = self._field(slot)
        return None if at is None else self._file.follow(at)

    def int8(self, slot: int) -> int:
        """Return a signed byte (also used for enumerations and union types); 0 if absent."""
        return self._scalar(slot, "b", 0)

    def int32(self, slot: int) -> int:
        """Return a 32-bit integer; 0 if absent."""
        return self._scalar(slot, "i", 0)

    def int64(self, slot: int, default: int = 0) -> int:
        """Return a 64-bit integer; ``default`` if absent."""
        return self._scalar(slot, "q", default)

    def _scalar(self, slot: int, code: str, default: int) -> int:
        at = self._field(slot)
        return default if at is None else self._file.number(code, at)

    def float32(self, slot: int) -> float:
        """Return a float; 0.0 if absent."""
        at = self._field(slot)
        if at is None:
            return 0.0
        self._file.check(at, 4)
        value = struct.unpack_from("<f", self._file.buffer, at)[0]
        return float(value)

    def data(self, slot: int) -> tuple[int, int] | None:
        """Return position and length in bytes of a byte vector or string; None if absent."""
        return self._vector(slot, 1)

    def raw(self, slot: int) -> bytes:
        """Return the bytes of a byte vector or string; empty if absent."""
        place = self.data(slot)
        return b"" if place is None else self._file.buffer[place[0] : place[0] + place[1]]

    def string(self, slot: int) -> str:
        """Return a string; empty if absent."""
        return self._text(self.data(slot))

    def strings(self, slot: int) -> list[str]:
        """Return a vector of strings; empty if absent."""
        return [self._text(self._items(at, 1)) for at in self._targets(slot)]

    def byte_strings(self, slot: int) -> list[bytes]:
        """Return a vector of undecoded strings; empty if absent."""
        places = (self._items(at, 1) for at in self._targets(slot))
        return [self._file.buffer[at : at + count] for at, count in places]

    def int64s(self, slot: int) -> tuple[int, ...]:
        """Return a vector of 64-bit integers; empty if absent."""
        return struct.unpack(*self._packed(slot, "q", 8))

    def float32s(self, slot: int) -> tuple[float, ...]:
        """Return a vector of floats; empty if absent."""
        return struct.unpack(*self._packed(slot, "f", 4))

    def table(self, slot: int) -> FlatbufferTable | None:
        """Return a table to which this table refers; None if absent."""
        at = self._target(slot)
        return None if at is None else FlatbufferTable(self._file, at, self._depth + 1)

    def tables(self, slot: int) -> Iterator[FlatbufferTable]:
        """Yield the tables of a vector; none if absent."""
        for at in self._targets(slot):
            yield FlatbufferTable(self._file, at, self._depth + 1)

    def damaged(self, what: str) -> ModelError:
        """Return the error for invalid contents of this table."""
        return self._file.damaged(self._position, what)

    def _targets(self, slot: int) -> Iterator[int]:
        place = self._vector(slot, 4)
        if place is not None:
            for index in range(place[1]):
                yield self._file.follow(place[0] + 4 * index)

    def _vector(self, slot: int, item_bytes: int) -> tuple[int, int] | None:
        at = self._target(slot)
        return None if at is None else self._items(at, item_bytes)

    def _items(self, at: int, item_bytes: int) -> tuple[int, int]:
        count = self._file.number("I", at)
        self._file.check(at + 4, count * item_bytes)
        return at + 4, count

    def _packed(self, slot: int, code: str, item_bytes: int) -> tuple[str, bytes]:
        place = self._vector(slot, item_bytes)
        if place is None:
            return "<", b""
        at, count = place
        return f"<{count}{code}", self._file.buffer[at : at + count * item_bytes]

    def _text(self, place: tuple[int, int] | None) -> str:
        if place is None:
            return ""
        at, count = place
        try:
            return self._file.buffer[at : at + count].decode()
        except UnicodeDecodeError as error:
            raise self._file.damaged(at, "a name is not UTF-8") from error
