"""Reading of stored sessions without writing: a store may be in a read-only folder.

A store may have been written by another version, or be damaged: a session that cannot be read becomes one sentence, and
all others are still shown.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ortune.errors import StoreError, UsageError
from ortune.records import Host, Timeline
from ortune.store.db import DATABASE, Event, SessionHead, Store
from ortune.store.places import data_folder

FAILED = "failed"
"""Kind of the event that stores the error that ended a session."""
UNREADABLE = (OSError, zlib.error, StoreError, sqlite3.Error, msgspec.MsgspecError, UnicodeDecodeError)
"""Exceptions from reading a damaged session."""


class Header(msgspec.Struct):
    """The parts of a session's header that are read; any may be missing."""

    model: str = ""
    a: str = ""
    b: str = ""
    host: Host | None = None

    @property
    def label(self) -> str:
        """Name of the session's subject."""
        return self.model or (f"{self.a} against {self.b}" if self.a != self.b else self.a)


class ReadOnlyStore(Store):
    """A store opened only for reading, even while another ortune writes it; a missing store is not created.

    Raises:
        UsageError: If nothing is stored there.
        StoreError: If it cannot be opened.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder or data_folder()
        path = self.folder / DATABASE
        try:
            if not path.is_file():
                raise UsageError(
                    "nothing is stored yet",
                    where=str(self.folder),
                    do="ortune tune MODEL and ortune compare A B store their results; --store PATH selects another "
                    "store",
                )
            uri = f"{path.absolute().as_uri()}?mode=ro"
            self._db = sqlite3.connect(uri, uri=True, timeout=30, isolation_level=None)
            self._require_known()
            self.heads = self.sessions()
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"cannot be read: {error}", where=str(self.folder), do="choose another with --store PATH"
            ) from error

    def find(self, wanted: str) -> SessionHead:
        """Return the session with an id that begins with ``wanted``, with or without the date; "newest" means the last.

        Raises:
            UsageError: If there is none, or more than one.
        """
        if wanted == "newest" and self.heads:
            return self.heads[0]
        names = [(head, (head.id, head.id.partition("-")[2])) for head in self.heads]
        matches = [h for h, both in names if wanted and any(name.startswith(wanted) for name in both)]
        # An exact id takes precedence, even if it is the beginning of another.
        exact = [h for h, both in names if wanted in both]
        if len(exact) == 1 or len(matches) == 1:
            return (exact or matches)[0]
        if not matches:
            raise UsageError(
                "no stored session or bundle has this name",
                where=wanted,
                do="run ortune report to list stored sessions",
            )
        some = ", ".join(h.id for h in matches[:4]) + (", ..." if len(matches) > 4 else "")
        raise UsageError(
            f"{len(matches)} sessions start with this id: {some}", where=wanted, do="use a longer id"
        )

    def timeline(self, session: str) -> Timeline | None:
        """Return the timeline of a profile that was stored with the session; None if there is none or it is damaged."""
        try:
            timelines = [e for e in self.events(session) if e.kind == "timeline"]
            return msgspec.json.decode(timelines[-1].body, type=Timeline) if timelines else None
        except UNREADABLE:
            return None


def header(head: SessionHead) -> Header:
    """Return the header of a session, or an empty one if it is damaged."""
    try:
        return msgspec.json.decode(head.header, type=Header)
    except UNREADABLE:
        return Header()


def is_about(head: SessionHead, model: str) -> bool:
    """Return whether a session is about a file with that name, as its model or one of its sides."""
    result = header(head)
    return Path(model).name in {Path(name).name for name in (result.model, result.a, result.b)}


def failure(events: Sequence[Event]) -> str:
    """Return the error that ended a session; "" if there was none or the session continued since."""
    if not events or events[-1].kind != FAILED:
        return ""
    return str(msgspec.json.decode(events[-1].body, type=dict[str, str]).get("what", "")) or "unknown error"


def document(events: Sequence[Event]) -> bytes | None:
    """Return the last document of a session, or None; a ``result`` without a schema is only part of a document."""
    for event in reversed(events):
        if event.kind == "document":
            return event.body
        if event.kind == "result" and "schema" in msgspec.json.decode(event.body):
            return event.body
    return None
