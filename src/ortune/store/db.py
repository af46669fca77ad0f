"""Append-only storage: every session is a list of events, written as they occur.

A trial is journalled before it starts, so after a crash or kill the running trial is known. Nothing is ever updated
or deleted (triggers reject it). If the disk becomes full, measuring continues, and the session reports that results are
no longer stored.

A commit does not wait for the disk: SQLite appends it to a write-ahead log next to the database, which then belongs to
the system. A killed process loses nothing that it committed. A power cut may lose the last events of running sessions,
but leaves the database valid and ended sessions complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import zlib
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import psutil

from ortune import files
from ortune.errors import StoreError
from ortune.store.places import data_folder

DATABASE = "ortune.sqlite"
SCHEMA_VERSION = 3
"""Incremented when documents change; a store of another version is neither read nor changed."""
INLINE_BYTES = 64 * 1024  # larger events are stored in separate files, named by their sha256
LOCAL_DISKS = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay", "tmpfs", "apfs", "NTFS"}
)
"""Local file systems. A write-ahead log uses shared memory, so two machines would corrupt a store on a network file
system: there each commit waits for the disk.
"""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS session (
    id TEXT PRIMARY KEY, at TEXT NOT NULL, verb TEXT NOT NULL, key TEXT NOT NULL, header TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS event (
    session TEXT NOT NULL REFERENCES session(id), seq INTEGER NOT NULL, at TEXT NOT NULL, kind TEXT NOT NULL,
    body TEXT, blob TEXT, PRIMARY KEY (session, seq)
);
CREATE INDEX IF NOT EXISTS session_key ON session (key, at);
"""
_TRIGGERS = "".join(
    f"CREATE TRIGGER IF NOT EXISTS {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
    "BEGIN SELECT RAISE(ABORT, 'the store is append-only'); END;\n"
    for table in ("session", "event")
    for verb in ("UPDATE", "DELETE")
)

SYNCHRONOUS = "NORMAL"
"""SQLite's synchronous mode with a write-ahead log: it waits for the disk only when the log is emptied."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a session; ``body`` is the JSON of the record type named by ``kind``."""

    seq: int
    at: str
    kind: str
    body: bytes


class SessionHead(msgspec.Struct, frozen=True, kw_only=True):
    """A stored session without its events."""

    id: str
    at: str
    verb: str
    key: str
    header: bytes


class Store:
    """The database and its folder of blobs.

    Args:
        folder: Folder of the store; None for the user's data folder.

    Raises:
        StoreError: If the folder cannot be created, or the database cannot be opened for writing.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or data_folder()
        try:
            files.private_folder(self.folder, own=folder is None)
            files.private_file(self.folder / DATABASE)  # SQLite gives its journal the same mode
            self._db = sqlite3.connect(self.folder / DATABASE, timeout=30, isolation_level=None)
            if not self._require_known():
                self._db.executescript(
                    f"BEGIN;{_SCHEMA}{_TRIGGERS}PRAGMA user_version={SCHEMA_VERSION};COMMIT;"
                )
            if _file_system(self.folder) in LOCAL_DISKS:
                self._log_ahead()
            # Ensures now, not after an hour of measuring, that events can be written.
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("INSERT INTO session VALUES ('', '', '', '', '')")
            self._db.execute("INSERT INTO event VALUES ('', 0, '', '', '', NULL)")
            self._db.execute("ROLLBACK")
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"cannot be written: {error}",
                where=str(self.folder),
                do="choose another place with --store PATH",
            ) from error

    def _require_known(self) -> int:
        """Return the version of the database, 0 for an empty one; raise StoreError for an unsupported version."""
        version = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        if version > SCHEMA_VERSION:
            what, do = "a newer ortune", "upgrade ortune, or use another place with --store PATH"
        elif 0 < version < SCHEMA_VERSION:
            what, do = (
                "an ortune before 0.1.0",
                "move the folder away, or use another place with --store PATH",
            )
        else:
            return version
        raise StoreError(f"written by {what} (format {version})", where=str(self.folder), do=do)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    def _log_ahead(self) -> None:
        """Switch to a write-ahead log, unless another process is using the database without one."""
        with contextlib.suppress(sqlite3.OperationalError):
            ((mode,),) = self._db.execute("PRAGMA journal_mode=WAL").fetchall()
            if mode == "wal":
                self._db.execute(f"PRAGMA synchronous={SYNCHRONOUS}")

    def close(self) -> None:
        """Close the database; if no other process uses it, write everything to disk, in one file."""
        # Without a log, it can be read from a read-only folder.
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("PRAGMA busy_timeout=0")
            self._db.execute("PRAGMA journal_mode=DELETE")
        self._db.close()

    def begin(self, verb: str, key: str, header: Any) -> SessionLog:
        """Start a session; ``key`` identifies its subject (model, workload, target), to find it again."""
        at = _now()
        session = f"{at[:10].replace('-', '')}-{hashlib.sha256(os.urandom(16)).hexdigest()[:6]}"
        log = SessionLog(self, session)
        log.write(
            lambda: self._db.execute(
                "INSERT INTO session VALUES (?,?,?,?,?)", (session, at, verb, key, _text(header))
            )
        )
        return log

    def resume(self, session: str) -> SessionLog:
        """Return the log of a stored session, which appends after the session's last event."""
        log = SessionLog(self, session)
        ((log.seq,),) = self._read("SELECT COALESCE(MAX(seq), 0) FROM event WHERE session = ?", session)
        return log

    def sessions(self, key: str | None = None) -> list[SessionHead]:
        """Return the stored sessions, newest first; with ``key``, only those of that subject."""
        where, values = ("WHERE key = ?", (key,)) if key is not None else ("", ())
        # Sessions begun within one millisecond have the same time; the row's number tells which came later.
        rows = self._read(
            f"SELECT id, at, verb, key, header FROM session {where} ORDER BY at DESC, rowid DESC", *values
        )
        return [SessionHead(id=r[0], at=r[1], verb=r[2], key=r[3], header=r[4].encode()) for r in rows]

    def events(self, session: str, but: str = "") -> list[Event]:
        """Return all events of a session, in order.

        Args:
            session: Id of the session.
            but: A kind of event to exclude.
        """
        rows = self._read(
            "SELECT seq, at, kind, body, blob FROM event WHERE session = ? AND kind != ? ORDER BY seq",
            session,
            but,
        )
        return [Event(seq=r[0], at=r[1], kind=r[2], body=self._body(r[3], r[4])) for r in rows]

    def event(self, session: str, seq: int) -> bytes:
        """Return the record of one event."""
        ((body, blob),) = self._read(
            "SELECT body, blob FROM event WHERE session = ? AND seq = ?", session, seq
        )
        return self._body(body, blob)

    def _read(self, question: str, *values: str | int) -> list[tuple[Any, ...]]:
        """Return all rows of a query.

        Raises:
            StoreError: If the database is damaged.
        """
        try:
            return self._db.execute(question, values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(
                f"cannot be read: {error}",
                where=str(self.folder),
                do="choose another place with --store PATH",
            ) from error

    def append(self, session: str, seq: int, kind: str, record: Any) -> None:
        """Add one event; raise sqlite3.Error or OSError if that fails."""
        body: str | None = _text(record)
        assert body is not None
        blob = None
        if len(body) > INLINE_BYTES:
            blob, body = self.put_blob(body.encode()), None
        self._db.execute("INSERT INTO event VALUES (?,?,?,?,?,?)", (session, seq, _now(), kind, body, blob))

    def put_blob(self, data: bytes) -> str:
        """Write a blob and return its name, the sha256."""
        name = hashlib.sha256(data).hexdigest()
        path = self.folder / "blobs" / name[:2] / name
        if not path.exists():
            files.private_folder(self.folder / "blobs", own=True)
            files.private_folder(path.parent, own=True)
            files.write(path, zlib.compress(data), private=True)
        return name

    def _body(self, body: str | None, blob: str | None) -> bytes:
        return (body or "").encode() if blob is None else self.blob(blob)

    def blob(self, name: str) -> bytes:
        """Return the uncompressed content of a large event that is stored in a separate file."""
        return zlib.decompress((self.folder / "blobs" / name[:2] / name).read_bytes())


class SessionLog:
    """Writer of one session's events; after a failed write, ``trouble`` is the reason and nothing more is stored."""

    def __init__(self, store: Store | None, session: str) -> None:
        self.id = session if store else ""
        self.trouble = ""
        self._store = store
        self.seq = 0

    @property
    def folder(self) -> Path | None:
        """Folder of the store; None without one."""
        return self._store.folder if self._store else None

    def add(self, kind: str, record: Any) -> None:
        """Append a record to the journal as an event of the given kind; do nothing without a store."""
        store = self._store
        if store is not None:
            self.seq += 1
            self.write(lambda: store.append(self.id, self.seq, kind, record))

    def attach(self, file: Path) -> str:
        """Store a whole file with the events; return its name in the store, or "" if it was not stored."""
        names: list[str] = []
        store = self._store
        if store is not None:
            self.write(lambda: names.append(store.put_blob(file.read_bytes())))
        return names[0] if names else ""

    def attachment(self, name: str) -> bytes:
        """Return a stored file; raise OSError or zlib.error if it is missing or damaged."""
        if self._store is None:
            raise FileNotFoundError(name)
        return self._store.blob(name)

    def write(self, action: Any) -> None:
        """Call a function that writes; record a failure, since a full disk or missing store must not end a session."""
        if self.trouble:
            return
        try:
            action()
        except (OSError, sqlite3.Error) as error:
            where = self._store.folder if self._store else ""
            self.trouble = f"results are no longer stored: {where} cannot be written ({error})"


def _file_system(folder: Path) -> str:
    """Return the type of the file system of a folder; "" if unknown."""
    place = folder.resolve()
    mounts = {Path(partition.mountpoint): partition.fstype for partition in psutil.disk_partitions(all=True)}
    return next((mounts[parent] for parent in (place, *place.parents) if parent in mounts), "")


def _text(record: Any) -> str:
    return msgspec.json.encode(record).decode()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
