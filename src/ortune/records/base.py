"""The base of every record."""

from __future__ import annotations

from typing import TypeVar

import msgspec

Value = bool | int | float | str


PROTOCOL_VERSION = 2
"""Version of the messages between ortune and a worker; both sides refuse another one."""


Kind = TypeVar("Kind")


def read_json(text: bytes, kind: type[Kind]) -> Kind:
    """A record of what somebody's file holds.

    Raises:
        msgspec.DecodeError: It is no such JSON, is not UTF-8, or nests deeper than any record.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from error


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Base of every record."""
