"""Code shared by rules on a recorded application."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ortune.catalogue.named import ALLOW_SPINNING
from ortune.records import (
    Frame,
    RecordedModel,
    RecordedProcess,
    RecordedSession,
    Recording,
    most_at_once,
)

SHOWN_FRAMES = 4
_STANDARD = re.compile(r"/lib/python3\.\d+/|^<frozen ")
"""Matches files of Python's standard library, which only forward a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualSessions:
    """Sessions of one process with the same model, settings and providers.

    Attributes:
        sessions: The sessions in order of creation, without failed and inherited sessions.
    """

    process: RecordedProcess
    model: RecordedModel
    sessions: Sequence[RecordedSession]

    @property
    def n_calls(self) -> int:
        """Number of calls of all the sessions."""
        return sum(session.n_calls for session in self.sessions)

    @property
    def creation_ns(self) -> int:
        """Total time for creating the sessions, in nanoseconds."""
        return sum(session.creation_ns for session in self.sessions)

    @property
    def name(self) -> str:
        """The model's name as used in sentences."""
        return model_name(self.model)

    def live(self) -> int:
        """Return the maximum number of the sessions that existed at the same time."""
        return most_at_once(self.sessions)

    def for_few_calls(self) -> list[EqualSessions]:
        """Return one group for each place in the code that creates a session for every few calls."""
        places: dict[int, list[RecordedSession]] = {}
        for session in self.sessions:
            places.setdefault(session.place, []).append(session)
        groups = [replace(self, sessions=sessions) for sessions in places.values()]
        return [g for g in groups if len(g.sessions) >= MANY and 0 < g.n_calls < FEW * len(g.sessions)]

    def without(self, groups: Sequence[EqualSessions]) -> EqualSessions:
        """Return the group without the sessions of other groups."""
        others = {session.id for group in groups for session in group.sessions}
        return replace(self, sessions=[session for session in self.sessions if session.id not in others])


MANY, FEW = 4, 3
"""A place creates sessions per call if it created ``MANY`` or more sessions, with fewer than ``FEW`` calls each."""


def group_equal(recording: Recording) -> Iterator[EqualSessions]:
    """Group the sessions that could be one session: same process, model, settings and providers."""
    groups: dict[tuple[object, ...], list[RecordedSession]] = {}
    for session in recording.sessions:
        if session.error or session.inherited or not session.creation_ns:
            continue
        identity = model_identity(recording.models[session.model])
        settings = tuple(sorted((name, str(value)) for name, value in session.used.items()))
        key = session.process, identity, settings, session.providers_used
        groups.setdefault(key, []).append(session)
    for sessions in groups.values():
        process = recording.processes[sessions[0].process]
        yield EqualSessions(process=process, model=recording.models[sessions[0].model], sessions=sessions)


def is_whole(recording: Recording) -> bool:
    """Return whether the program was recorded until it ended by itself, without an error."""
    return recording.ended_by == "program" and recording.code == 0


def key_of(session: RecordedSession) -> tuple[int, int]:
    """Return what identifies a session in its recording: the index of its process, and its number there."""
    return session.process, session.id


def process_of(recording: Recording, session: RecordedSession) -> RecordedProcess:
    """Return the process of a session."""
    return recording.processes[session.process]


def model_identity(model: RecordedModel) -> object:
    """Return a value that is equal for equal models."""
    return model.sha256 or (model.path, model.size_bytes)


def model_name(model: RecordedModel) -> str:
    """Return the file name of a model, or its hash if it has no path."""
    if model.path:
        return model.path.rpartition("/")[2]
    return f"the model {model.sha256[:8]}" if model.sha256 else "a model"


def place(frames: Sequence[Frame]) -> str:
    """Format a call stack as its innermost frame and the first frame of another package."""
    if not frames:
        return "an unknown place"
    inner = frames[0]
    outer = next((f for f in frames if f.package != inner.package and not _STANDARD.search(f.file)), None)
    text = frame_text(inner)
    return f"{text}, called from {frame_text(outer)}" if outer is not None else text


def frame_text(frame: Frame) -> str:
    """Format a frame as package, version, file and line."""
    package = f"{frame.package} {frame.version}, ".replace(" ,", ",") if frame.package else ""
    line = f":{frame.line}" if frame.line else ""  # native code has no line
    return f"{package}{frame.file or 'the program'}{line}"


def stack(frames: Sequence[Frame]) -> tuple[str, ...]:
    """Format the innermost frames as lines of file and line number."""
    return tuple(f"{frame.file or 'program'}:{frame.line}" for frame in frames[:SHOWN_FRAMES])


def frames_of(recording: Recording, session: RecordedSession) -> tuple[Frame, ...]:
    """Return the call stack that created a session; empty if unknown."""
    return recording.places[session.place] if session.place >= 0 else ()


def allowed_cpus(recording: Recording, process: RecordedProcess) -> int:
    """Return the number of CPUs that a process may use at the same time, by affinity and quota."""
    affinity = len(process.cpus) or recording.logical_cpus
    return affinity if recording.cpu_quota is None else min(affinity, max(1, math.ceil(recording.cpu_quota)))


def is_spinning(session: RecordedSession) -> bool:
    """Return whether the threads of a session spin while they have no work, which is the default."""
    return str(session.used.get(ALLOW_SPINNING.key, "1")) != "0"
