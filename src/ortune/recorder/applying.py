"""Runs a program with changed sessions, and collects the applied changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ortune import files, temporary
from ortune.recorder import apply_hook, doors, native
from ortune.recorder.following import follow, require_proc
from ortune.recorder.watch import homes_of
from ortune.records import AppliedRun, ChangedModel, SessionChange


class AppliedProcess(msgspec.Struct, tag_field="e", tag="process"):
    """Event: a process imported onnxruntime."""

    pid: int
    home: str
    version: str


class AppliedSession(msgspec.Struct, tag_field="e", tag="session"):
    """Event: a session was created, or an object began to use a shared session."""

    n: int
    how: str
    name: str = ""
    what: list[str] = []
    kept: list[str] = []


class OwnSession(msgspec.Struct, tag_field="e", tag="own"):
    """Event: an object got an unshared session, with the reason."""

    n: int
    why: str


class GuardedCalls(msgspec.Struct, tag_field="e", tag="guard"):
    """Event: number of an object's calls with shapes that the replacement model does not support."""

    n: int
    calls: int
    of: int


class ApplierOff(msgspec.Struct, tag_field="e", tag="off"):
    """Event: the applier was switched off in a process, with the reason."""

    why: str


_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
    AppliedProcess | AppliedSession | OwnSession | GuardedCalls | ApplierOff
)


def apply(
    command: Sequence[str],
    changes: Sequence[SessionChange],
    *,
    variables: Mapping[str, str],
    given: Mapping[str, str],
) -> AppliedRun:
    """Run a program to its end with changed sessions; return the applied changes.

    Args:
        command: Program and arguments.
        changes: Changes by model.
        variables: Environment variables to add.
        given: The environment of the program before the changes.

    Raises:
        UsageError: This system lacks /proc, or the program cannot be started.
    """
    require_proc()
    with temporary.folder() as scratch:
        folder = scratch / "changes"
        door = prepare(scratch, folder, changes)
        environment = doors.environment(folder, door, {**given, **variables}, doors.APPLY_VARIABLE)
        ended = follow(command, environment, folder, door, variable=doors.APPLY_VARIABLE)
        events = list(_events(folder))
        processes = [event for event in events if isinstance(event, AppliedProcess)]
        sessions = [event for event in events if isinstance(event, AppliedSession)]
        return AppliedRun(
            command=tuple(command),
            elapsed_ns=ended.elapsed_ns,
            cpu_ns=ended.cpu_ns,
            code=ended.code,
            seen=len(
                {ended.watch.root, *(pid for pid, _ in ended.watch.seen), *(each.pid for each in processes)}
            ),
            processes=len(processes),
            onnxruntime=tuple(dict.fromkeys(process.version for process in processes)),
            models=tuple(_model(number, change, events) for number, change in enumerate(changes)),
            unmatched=dict(Counter(event.name for event in sessions if event.n < 0)),
            missed=ended.watch.missed(homes_of((each.pid, each.home) for each in processes)),
            stopped=tuple(event.why.strip() for event in events if isinstance(event, ApplierOff)),
        )


def prepare(scratch: Path, folder: Path, changes: Sequence[SessionChange]) -> Path:
    """Write the changes and the hook files; return the folder that must be first on the program's search path."""
    folder.mkdir(mode=0o700)
    files.write(folder / apply_hook.CHANGES, msgspec.json.encode({"sessions": list(changes)}))
    files.write(folder / native.CHANGES, native.lines(changes))
    return doors.prepare(scratch)


def _events(folder: Path) -> Iterator[Any]:
    """Yield the events of all processes; a truncated last line is skipped."""
    for path in sorted(folder.glob("*.log")):
        for line in files.read(path).split(b"\n"):
            try:
                yield _DECODER.decode(line)
            except msgspec.DecodeError:
                continue


def _model(number: int, change: SessionChange, events: Sequence[Any]) -> ChangedModel:
    sessions = [event for event in events if isinstance(event, AppliedSession) and event.n == number]
    how = Counter(event.how for event in sessions)
    kept = Counter(why for event in sessions for why in event.kept)
    kept.update(
        f"not shared: {event.why}" for event in events if isinstance(event, OwnSession) and event.n == number
    )
    calls: dict[int, int] = {}
    for event in events:
        if isinstance(event, GuardedCalls) and event.n == number:
            calls[event.of] = max(event.calls, calls.get(event.of, 0))
    return ChangedModel(
        name=change.name,
        created=how["created"],
        shared=how["shared"],
        failed=how["failed"],
        what=tuple(dict.fromkeys(what for event in sessions for what in event.what)),
        kept=dict(kept),
        other_shapes=sum(calls.values()),
    )
