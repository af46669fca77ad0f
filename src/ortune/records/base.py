"""Base class of records, reading of records from JSON, and the version of the worker protocol."""

from __future__ import annotations

from typing import TypeVar

import msgspec

Value = bool | int | float | str


PROTOCOL_VERSION = 2
"""Version of the messages between ortune and a worker; each side rejects other versions."""


LONGEST_REPR = 60
"""Maximum characters of a field in ``repr``."""
Kind = TypeVar("Kind")


def read_json(text: bytes, kind: type[Kind]) -> Kind:
    """Return the record in a JSON text from an untrusted file.

    Raises:
        msgspec.DecodeError: The text is not UTF-8, not JSON of this record, or nested too deeply.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from error


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Base class of records: a frozen struct whose ``repr`` shows only fields that differ from their defaults."""

    def __repr__(self) -> str:
        """Return one line with the fields that differ from their defaults; long and nested values are abbreviated."""
        fields = (
            f"{f.name}={_short(value)}"
            for f in msgspec.structs.fields(self)
            if (value := getattr(self, f.name)) != f.default
        )
        return f"{type(self).__name__}({', '.join(fields)})"


def _short(value: object) -> str:
    if isinstance(value, Record):
        return f"{type(value).__name__}(...)"
    if isinstance(value, tuple | dict) and len(text := repr(value)) > LONGEST_REPR:
        return f"<{len(value)} items>"
    text = repr(value)
    return text if len(text) <= LONGEST_REPR else f"{text[:LONGEST_REPR]}..."
