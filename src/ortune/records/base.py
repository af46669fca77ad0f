"""The base of every record."""

from __future__ import annotations

import msgspec

Value = bool | int | float | str


PROTOCOL_VERSION = 2
"""Version of the messages between ortune and a worker; both sides refuse another one."""


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Base of every record."""
