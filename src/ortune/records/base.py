"""The base of every record."""

from __future__ import annotations

from typing import TypeVar

import msgspec

Value = bool | int | float | str


PROTOCOL_VERSION = 2
"""Version of the messages between ortune and a worker; both sides refuse another one."""


LONGEST_REPR = 60
"""Characters of one field."""
Kind = TypeVar("Kind")


def read_json(text: bytes, kind: type[Kind]) -> Kind:
    """Return a record of what somebody's file holds.

    Raises:
        msgspec.DecodeError: It is no such JSON, is not UTF-8, or nests deeper than any record.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from error


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Base of every record."""

    def __repr__(self) -> str:
        """Return one line at a prompt: what differs from the defaults, and of what is long or nested only its kind."""
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
