"""Lock of a recorded application: a later recording fails if it adds models, sessions, threads or shapes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ortune import files
from ortune.catalogue.named import INTRA_OP_NUM_THREADS as THREADS
from ortune.engines.locks.file import write_text
from ortune.errors import UsageError
from ortune.records import (
    AppSnapshot,
    LockChange,
    LockedUse,
    RecordedCalls,
    RecordedSession,
    Recording,
    most_at_once,
    read_json,
)

SCHEMA = "ortune/app-snapshot/1"
MODEL, SESSIONS, COPIES, USED_THREADS, SHAPE = "model", "sessions", "copies", "threads", "shape"
FILE, PACKAGE, VERSION, NOT_COMPARED = "file", "package", "ort-version", "not-compared"
PROCESSES = "processes"
_ORDER = (MODEL, SESSIONS, COPIES, USED_THREADS, SHAPE, NOT_COMPARED, PACKAGE, VERSION, FILE)


def snapshot_of(recording: Recording) -> AppSnapshot:
    """Return the part of a recording that a lock stores."""
    groups: dict[str, list[RecordedSession]] = {}
    for session in recording.sessions:
        if not session.error and not session.inherited:
            groups.setdefault(_name(recording, session), []).append(session)
    frames = [frame for place in recording.places for frame in place if frame.package]
    return AppSnapshot(
        schema=SCHEMA,
        onnxruntime=tuple(sorted({process.onnxruntime for process in recording.processes})),
        packages={frame.package: frame.version for frame in sorted(frames, key=lambda frame: frame.package)},
        logical_cpus=recording.logical_cpus,
        missed=len(recording.missed),
        models={name: _use(recording, sessions) for name, sessions in sorted(groups.items())},
    )


def _name(recording: Recording, session: RecordedSession) -> str:
    model = recording.models[session.model]
    if model.path:
        return model.path.rpartition("/")[2]
    place = recording.places[session.place] if session.place >= 0 else ()
    package = next((frame.package for frame in place if frame.package), "")
    return f"bytes ({package})" if package else "bytes"


def _use(recording: Recording, sessions: list[RecordedSession]) -> LockedUse:
    alike: dict[tuple[int, str], list[RecordedSession]] = {}
    for session in sessions:
        alike.setdefault((session.process, recording.models[session.model].sha256), []).append(session)
    threads = [(session.threads, session) for session in sessions if session.threads is not None]
    most, widest = max(threads, key=lambda each: each[0], default=(None, None))
    digests = {recording.models[session.model].sha256 for session in sessions}
    # A forked process calls its parent's sessions, so their shapes count as well.
    models = {session.model for session in sessions}
    calls = [calls for session in recording.sessions if session.model in models for calls in session.calls]
    return LockedUse(
        sha256=tuple(sorted(digests - {""})),
        sessions=len(sessions),
        copies=max(map(most_at_once, alike.values())),
        threads=None if most is None else 1 + most,
        threads_set=widest is not None and bool((widest.options or {}).get(THREADS.key)),
        shapes=tuple(sorted({_shape(each) for each in calls if each.count})),
    )


def _shape(calls: RecordedCalls) -> str:
    return ", ".join(
        f"{value.name} {'?' if value.shape is None else 'x'.join(map(str, value.shape)) or 'scalar'}"
        for value in sorted(calls.inputs, key=lambda value: value.name)
    )


def app_differences(was: AppSnapshot, now: AppSnapshot, *, strict: bool) -> tuple[LockChange, ...]:
    """Return the differences between a recording and its lock; additions fail the check.

    Args:
        was: The lock.
        now: The new recording.
        strict: Whether every difference fails the check.
    """
    changes = [*_uses(was, now), *_rest(was, now)]
    if strict:
        changes = [msgspec.structs.replace(change, fails=True) for change in changes]
    return tuple(sorted(changes, key=lambda change: (not change.fails, _ORDER.index(change.part))))


def _uses(was: AppSnapshot, now: AppSnapshot) -> Iterator[LockChange]:
    for name in sorted(was.models.keys() | now.models.keys()):
        old, new = was.models.get(name), now.models.get(name)
        if old is None or new is None:
            sessions = (old or LockedUse()).sessions, (new or LockedUse()).sessions
            yield LockChange(part=MODEL, name=name, was=sessions[0], now=sessions[1], fails=old is None)
            continue
        yield from _count(SESSIONS, name, old.sessions, new.sessions)
        yield from _count(COPIES, name, old.copies, new.copies)
        if old.threads is not None and new.threads is not None:
            same = was.logical_cpus == now.logical_cpus or (old.threads_set and new.threads_set)
            if same:
                yield from _count(USED_THREADS, name, old.threads, new.threads)
            elif old.threads != new.threads or old.threads_set != new.threads_set:
                yield LockChange(part=NOT_COMPARED, name=f"{USED_THREADS} of {name}", fails=False)
        for shape in sorted({*old.shapes} ^ {*new.shapes}):
            added = shape in new.shapes
            yield LockChange(
                part=SHAPE, name=name, was=None if added else shape, now=shape if added else None, fails=added
            )
        if old.sha256 != new.sha256:
            texts = (", ".join(digest[:12] for digest in use.sha256) for use in (old, new))
            yield LockChange(part=FILE, name=name, was=next(texts), now=next(texts), fails=False)


def _count(part: str, name: str, was: int, now: int) -> Iterator[LockChange]:
    if was != now:
        yield LockChange(part=part, name=name, was=was, now=now, fails=now > was)


def _rest(was: AppSnapshot, now: AppSnapshot) -> Iterator[LockChange]:
    if now.missed:
        yield LockChange(
            part=NOT_COMPARED, name=PROCESSES, was=was.missed, now=now.missed, fails=now.missed > was.missed
        )
    for name in sorted(was.packages.keys() | now.packages.keys()):
        old, new = was.packages.get(name), now.packages.get(name)
        if old != new:
            yield LockChange(part=PACKAGE, name=name, was=old, now=new, fails=False)
    if was.onnxruntime != now.onnxruntime:
        texts = (", ".join(each.onnxruntime) for each in (was, now))
        yield LockChange(part=VERSION, was=next(texts), now=next(texts), fails=False)


def write_app_lock(path: Path, snapshot: AppSnapshot, *, typed: bool) -> None:
    """Write the lock file of an application.

    Raises:
        UsageError: The file cannot be written.
    """
    text = json.dumps(msgspec.to_builtins(snapshot), indent=2, sort_keys=True)
    write_text(path, text + "\n", typed=typed)


def read_app_lock(path: Path, again: str) -> AppSnapshot:
    """Read the lock file of an application.

    Args:
        path: The file.
        again: The command that writes the file, for errors.

    Raises:
        UsageError: The file is missing, damaged, or not an application's lock.
    """
    try:
        snapshot = read_json(files.read(path), AppSnapshot)
    except FileNotFoundError:
        raise UsageError("there is no lock file", where=str(path), do=f"write it: {again}") from None
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(
            f"not a readable lock file: {error}", where=str(path), do=f"create it again: {again}"
        ) from error
    if snapshot.schema != SCHEMA:
        raise UsageError(
            f"the lock has schema {snapshot.schema!r}, and a recording is compared with {SCHEMA!r}",
            where=str(path),
            do=f"create it again: {again}",
        )
    return snapshot
