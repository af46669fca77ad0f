"""Protobuf wire format of a ModelProto, read from a memory map: the graph without its weights.

Parsing an ``.onnx`` file with protobuf copies every weight into memory. ``skeleton`` scans the wire format instead and
copies everything except large tensor payloads, which become external-data references into their file. Messages shorter
than ``THRESHOLD`` have no large payload and are copied unread, so the cost depends on the size of the graph instead of
the weights. The skeleton is ordinary protobuf: fields unknown to this module are kept.
"""

from __future__ import annotations

import mmap
from typing import Final, Literal

from ortune.errors import ModelError

THRESHOLD: Final = 1024
"""Minimum size in bytes of payloads that become references; smaller payloads stay, for use in shape arithmetic."""

OWN_FILE: Final = "<this file>"
"""Location in skeletons for payloads that are inline in the model file."""

LOOKS: Final = 256
"""Number of tensors to read before their pages are released; reading one number maps the sixteen pages around it."""

MAX_DEPTH: Final = 100
"""Maximum nesting depth of messages, which is the limit of protobuf and therefore of ONNX Runtime."""

MAX_PROTOBUF_BYTES: Final = 2**31 - 1

_Kind = Literal["model", "graph", "node", "attribute", "function", "training", "sparse", "tensor"]

# Fields that can contain tensors, by message.
_CHILDREN: Final[dict[_Kind, dict[int, _Kind]]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "training": {1: "graph", 2: "graph"},
    "sparse": {1: "tensor", 2: "tensor"},
}

_VARINT, _FIXED64, _LENGTH, _GROUP, _END_GROUP, _FIXED32 = range(6)

# Fields of TensorProto.
_DATA_TYPE, _RAW_DATA, _FLOAT_DATA, _DOUBLE_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 2, 9, 4, 10, 13, 14
_DATA_FIELDS: Final = frozenset({4, 5, 6, 7, 9, 10, 11})
_STRING: Final = 8
# Packed floats are stored like raw_data: little-endian, in sequence.
_SAME_AS_RAW: Final = {_FLOAT_DATA: (1, 14), _DOUBLE_DATA: (11, 15)}


def give_back(buffer: mmap.mmap) -> None:
    """Release the mapped pages that were read; a later read restores them from the system's page cache."""
    if hasattr(mmap, "MADV_DONTNEED"):
        buffer.madvise(mmap.MADV_DONTNEED)


def skeleton(buffer: mmap.mmap | bytes, where: str) -> bytes:
    """Return the ModelProto in ``buffer`` with each large payload replaced by a reference to ``OWN_FILE``.

    Raises:
        ModelError: If the data is truncated, damaged or nested too deeply, or the graph alone exceeds 2 GiB.
    """
    data = _Scanner(buffer, where).message(0, len(buffer), "model", 0)
    if data is None:
        data = buffer[:]
    if len(data) > MAX_PROTOBUF_BYTES:
        raise ModelError(
            f"The graph alone, without its large tensors, takes {len(data)} bytes; "
            "protobuf reads at most 2 GiB.",
            where=where,
            do="Save the model with external data (onnx.save(..., save_as_external_data=True)).",
        )
    return data


class _Scanner:
    """Scanner of one buffer; positions are absolute, so that errors can report them."""

    def __init__(self, buffer: mmap.mmap | bytes, where: str) -> None:
        self._buffer = buffer
        self._where = where
        self._left_out = 0

    def message(self, start: int, end: int, kind: _Kind, depth: int) -> bytes | None:
        """Return the rewritten message of ``kind`` between two positions, or None if nothing had to change."""
        if kind == "tensor":
            return self._tensor(start, end)
        if depth > MAX_DEPTH:
            raise ModelError(
                f"Messages nest deeper than {MAX_DEPTH} levels; protobuf, and so ONNX Runtime, refuses that.",
                where=f"{self._where}, byte {start}",
                do="Export the model again; subgraphs this deep come from a broken export.",
            )
        children = _CHILDREN[kind]
        pieces: list[bytes] = []
        kept_from = position = start
        while position < end:
            number, wire, at, value_end = self._field(position, end)
            if wire == _LENGTH and number in children and value_end - at >= THRESHOLD:
                inner = self.message(at, value_end, children[number], depth + 1)
                if inner is not None:
                    pieces += (self._buffer[kept_from:position], _length_field(number, inner))
                    kept_from = value_end
            position = value_end
        if not pieces:
            return None
        pieces.append(self._buffer[kept_from:end])
        return b"".join(pieces)

    def _tensor(self, start: int, end: int) -> bytes | None:
        """Return a TensorProto whose payload is replaced by a reference, or None if the tensor must stay unchanged."""
        payloads: list[tuple[int, int, int, int, int]] = []
        data_type, position = 0, start
        while position < end:
            number, wire, at, value_end = self._field(position, end)
            if number in _DATA_FIELDS:
                payloads.append((number, wire, position, at, value_end))
            elif number in (_EXTERNAL_DATA, _DATA_LOCATION):
                return None
            elif number == _DATA_TYPE and wire == _VARINT:
                data_type, _ = self._varint(at, end)
            position = value_end
        # Data in several pieces, or as unpacked numbers, is not contiguous in the file.
        if len(payloads) != 1:
            return None
        number, wire, field_at, at, value_end = payloads[0]
        as_raw = number == _RAW_DATA and data_type != _STRING
        if wire != _LENGTH or not (as_raw or data_type in _SAME_AS_RAW.get(number, ())):
            return None
        length = value_end - at
        if length < THRESHOLD:
            return None
        self._left_out += 1
        if self._left_out % LOOKS == 0 and isinstance(self._buffer, mmap.mmap):
            give_back(self._buffer)
        entries = (("location", OWN_FILE), ("offset", str(at)), ("length", str(length)))
        return b"".join(
            (
                self._buffer[start:field_at],
                self._buffer[value_end:end],
                *(_length_field(_EXTERNAL_DATA, _string_entry(key, value)) for key, value in entries),
                # data_location = EXTERNAL. Field numbers below 16 make a key of one byte.
                bytes((_DATA_LOCATION << 3 | _VARINT, 1)),
            )
        )

    def _field(self, position: int, end: int) -> tuple[int, int, int, int]:
        """Decode a field's header, and return (field number, wire type, start of the value, end of the value)."""
        key, at = self._varint(position, end)
        number, wire = key >> 3, key & 7
        # A key has 32 bits: 29 for the field number, 3 for the wire type.
        if number == 0 or key >= 1 << 32:
            raise self._damaged(position, f"a field has the impossible number {number}")
        if wire == _VARINT:
            _, value_end = self._varint(at, end)
        elif wire == _LENGTH:
            length, at = self._varint(at, end)
            value_end = at + length
        elif wire == _FIXED64:
            value_end = at + 8
        elif wire == _FIXED32:
            value_end = at + 4
        elif wire in (_GROUP, _END_GROUP):
            raise self._damaged(position, f"field {number} is a protobuf group, which ONNX never uses")
        else:
            raise self._damaged(position, f"field {number} has the impossible wire type {wire}")
        if value_end > end:
            raise self._damaged(
                position, f"field {number} needs {value_end - at} bytes and {max(end - at, 0)} are left"
            )
        return number, wire, at, value_end

    def _varint(self, position: int, end: int) -> tuple[int, int]:
        """Decode a varint, and return its value and the position after it."""
        value = shift = 0
        buffer = self._buffer
        # 64 bits in groups of seven take at most ten bytes.
        for at in range(position, min(position + 10, end)):
            byte = buffer[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF, at + 1
            shift += 7
        raise self._damaged(position, "a variable-length integer does not end")

    def _damaged(self, position: int, what: str) -> ModelError:
        return ModelError(
            f"The file is truncated or damaged: {what}.",
            where=f"{self._where}, byte {position}",
            do="Download or export the model again, and compare the file's size with the original.",
        )


def _length_field(number: int, payload: bytes) -> bytes:
    return _encode_varint(number << 3 | _LENGTH) + _encode_varint(len(payload)) + payload


def _string_entry(key: str, value: str) -> bytes:
    # StringStringEntryProto: the key is field 1, the value field 2.
    return _length_field(1, key.encode()) + _length_field(2, value.encode())


def _encode_varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
