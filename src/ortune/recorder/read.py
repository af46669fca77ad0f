"""Reads the logs of a program's processes into one recording."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from ortune import files
from ortune.catalogue.providers import all_providers
from ortune.recorder import hook, native
from ortune.recorder.digests import Digests
from ortune.recorder.events import (
    Closed,
    Frames,
    Inherited,
    Placed,
    Process,
    RecorderOff,
    Row,
    Session,
    Signature,
    Text,
    parse,
)
from ortune.recorder.packages import Packages
from ortune.recorder.watch import homes_of
from ortune.records import (
    Arrival,
    Frame,
    RecordedCalls,
    RecordedInput,
    RecordedModel,
    RecordedProcess,
    RecordedSession,
    Value,
)

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Log:
    """The events and counters of one process.

    Attributes:
        name: File name of the log, without suffix.
        process: Description of the process.
        events: All events in order.
        ints: Integers of its memory map; () if there is none.
    """

    name: str
    process: Process
    events: list[Any]
    ints: Sequence[int] = ()


@dataclass(slots=True, kw_only=True)
class ProgramRecording:
    """The merged recordings of all processes of a program.

    Attributes:
        homes: Folders of ONNX Runtime, by process id.
    """

    processes: list[RecordedProcess] = field(default_factory=list)
    sessions: list[RecordedSession] = field(default_factory=list)
    models: list[RecordedModel] = field(default_factory=list)
    places: list[tuple[Frame, ...]] = field(default_factory=list)
    homes: dict[int, tuple[str, ...]] = field(default_factory=dict)


def logs(folder: Path) -> list[Log]:
    """Return the logs of a recording, oldest process first; logs of another format are skipped."""
    found = []
    for path in folder.glob("*.log"):
        events = list(parse(files.read(path)))
        process = next((event for event in events if isinstance(event, Process)), None)
        if process is None or process.format != hook.FORMAT:
            continue
        calls = path.with_suffix(".calls")
        ints: Sequence[int] = memoryview(files.read(calls)).cast("q") if files.exists(calls) else ()
        found.append(Log(name=path.stem, process=process, events=events, ints=ints))
    return sorted(found, key=lambda log: (log.process.ns, log.process.pid))


def read(folder: Path, start_ns: int, digests: Digests, cpu_ns: Mapping[int, int]) -> ProgramRecording:
    """Return the recordings of a program's processes.

    Args:
        folder: The folder of the recording.
        start_ns: Start of the recording, on the monotonic clock.
        digests: The sha256 of model files.
        cpu_ns: CPU time in ns, by process id.
    """
    merged = ProgramRecording()
    every = logs(folder)
    indices = {log.name: index for index, log in enumerate(every)}
    models, places = _Numbers(merged.models), _Numbers(merged.places)
    packages = Packages()
    sessions: dict[tuple[int, int], RecordedSession] = {}
    merged.homes = homes_of((log.process.pid, log.process.home) for log in every)
    for index, log in enumerate(every):
        reader = _Reader(log, index, start_ns, models, places, packages, digests)
        parent = indices.get(log.process.parent, -1)
        for session in reader.sessions(parent, sessions):
            sessions[index, session.id] = session
            merged.sessions.append(session)
        merged.processes.append(reader.process(parent, cpu_ns.get(log.process.pid)))
    return merged


class _Numbers(Generic[T]):
    """Assigns indices to values; equal values get the same index."""

    def __init__(self, things: list[T]) -> None:
        self.things = things
        self._known: dict[T, int] = {}

    def number(self, thing: T) -> int:
        number = self._known.setdefault(thing, len(self.things))
        if number == len(self.things):
            self.things.append(thing)
        return number


class _Reader:
    """Reads the log of one process."""

    def __init__(
        self,
        log: Log,
        index: int,
        start_ns: int,
        models: _Numbers[RecordedModel],
        places: _Numbers[tuple[Frame, ...]],
        packages: Packages,
        digests: Digests,
    ) -> None:
        self.log, self.index, self.start_ns = log, index, start_ns
        self.models, self.places, self.packages, self.digests = models, places, packages, digests
        self.texts = {event.id: json.loads(event.v) for event in log.events if isinstance(event, Text)}
        self.frames = {event.id: event.v for event in log.events if isinstance(event, Frames)}
        self.signatures = {event.id: event for event in log.events if isinstance(event, Signature)}
        self.counts = dict(self._live_rows())
        for event in log.events:
            if isinstance(event, Closed):
                self.counts |= {row[0]: row[1:] for row in event.rows}

    def _live_rows(self) -> Iterator[tuple[int, list[int]]]:
        ints = self.log.ints
        used = ints[hook.ROWS_AT] if ints else -1
        for row in range(used + 1):
            at = hook.HEADER + row * hook.FIELDS
            values = list(ints[at : at + hook.FIELDS])
            yield (values[hook.KEY] if row else 0), values

    def sessions(
        self, parent: int, known: Mapping[tuple[int, int], RecordedSession]
    ) -> Iterator[RecordedSession]:
        """Yield the sessions of the process, including those inherited by a fork."""
        rows: dict[int, list[RecordedCalls]] = {}
        ends: dict[int, Closed] = {}
        cpus: dict[int, Placed] = {}
        for event in self.log.events:
            if isinstance(event, Row):
                rows.setdefault(event.session, []).append(self._calls(event))
            elif isinstance(event, Closed):
                ends[event.id] = event
            elif isinstance(event, Placed):
                cpus[event.id] = event
        for event in self.log.events:
            if isinstance(event, Session | Inherited):
                calls = tuple(calls for calls in rows.get(event.id, ()) if calls.count)
                known_parent = known.get((parent, event.of)) if isinstance(event, Inherited) else None
                if isinstance(event, Session):
                    session = self._session(event, cpus.get(event.id))
                elif known_parent is not None:
                    session = msgspec.structs.replace(
                        known_parent, id=event.id, process=self.index, inherited=event.of, threads=0,
                        inherited_threads=event.threads, thread_cpus=(), creation_ns=0, memory_bytes=None,
                    )  # fmt: skip
                else:
                    continue
                end = ends.get(event.id)
                yield msgspec.structs.replace(
                    session, calls=calls, end_ns=end.ns - self.start_ns if end else None,
                    recreated=end is not None and end.again,
                )  # fmt: skip

    def _session(self, event: Session, placed: Placed | None) -> RecordedSession:
        asked, got = self.texts[event.providers]
        model = self.texts[event.model]
        return RecordedSession(
            id=event.id,
            process=self.index,
            model=self.models.number(
                RecordedModel(
                    path=str(model.get("path", "")),
                    sha256=self.digests.sha256(model),
                    size_bytes=model.get("bytes", 0),
                )
            ),
            place=self._place(event.frames),
            start_ns=event.ns - self.start_ns,
            creation_ns=event.took_ns,
            error=event.failed,
            error_message=event.message,
            memory_bytes=event.memory_bytes,
            writes_model=event.writes_model,
            on_event_loop=event.loop,
            thread=event.thread,
            threads=placed.threads if placed else None if event.tids is None else len(event.tids),
            thread_cpus=tuple(tuple(each) for each in self.texts[placed.cpus]) if placed else (),
            options=_values(self.texts[event.asked]),
            used=_values(self.texts[event.used]) or {},
            providers=None if asked is None else _names(asked),
            providers_used=_names(got or ()),
            config_from_model=event.config_from_model,
        )

    def _calls(self, event: Row) -> RecordedCalls:
        signature = self.signatures[event.signature]
        values = self.counts.get(event.key, [0] * hook.FIELDS)
        return RecordedCalls(
            key=event.key,
            method=signature.v[0],
            inputs=tuple(RecordedInput(name=n, dtype=d, shape=_shape(s)) for n, d, s in signature.v[1]),
            outputs=tuple(RecordedInput(name="", dtype=d, shape=_shape(s)) for d, s in signature.outputs),
            outputs_read=None if event.read is None else tuple(event.read),
            place=self._place(event.frames),
            count=values[hook.COUNT],
            failed=values[hook.FAILED],
            total_ns=values[hook.TOTAL_NS],
            least_ns=values[hook.LEAST_NS],
            most_ns=values[hook.MOST_NS],
            inspected=values[hook.INSPECTED],
            with_lists=values[hook.LISTS],
            not_contiguous=values[hook.STRIDED],
            chained=values[hook.CHAINED],
            mask_elements=values[hook.MASKS],
            mask_set=values[hook.ONES],
            pool_in_ns=values[hook.IN_NS],
            pool_in_wall_ns=values[hook.IN_WALL_NS],
            pool_between_ns=values[hook.BETWEEN_NS],
            pool_between_wall_ns=values[hook.BETWEEN_WALL_NS],
        )

    def _place(self, frames: int) -> int:
        return self.places.number(tuple(self.packages.frame(*frame) for frame in self.frames.get(frames, ())))

    def process(self, parent: int, cpu_ns: int | None) -> RecordedProcess:
        """Return the record of the process: its description, its first calls, and the time used by the recorder."""
        said, ints = self.log.process, self.log.ints
        calls = sum(values[hook.COUNT] for values in self.counts.values())
        plain = calls - sum(values[hook.INSPECTED] for values in self.counts.values())
        own_ns = ints[hook.OWN_NS] + calls * ints[hook.CALL_NS] + plain * ints[hook.PLAIN_NS] if ints else 0
        off = next((event.why for event in self.log.events if isinstance(event, RecorderOff)), "")
        return RecordedProcess(
            pid=said.pid,
            parent=parent,
            argv=tuple(said.argv),
            python=said.python,
            executable=said.executable,
            onnxruntime=said.version,
            cpus=tuple(said.cpus),
            variables=_own_variables(said.variables),
            start_ns=said.ns - self.start_ns,
            cpu_ns=cpu_ns,
            recorder_ns=own_ns,
            arrivals=tuple(self._arrivals()),
            lost_events=(ints[hook.LOST] if ints else 0) + self._lost_rows(),
            stopped=off.strip(),
        )

    def _lost_rows(self) -> int:
        """Return the number of rows whose counts were to be written when their session ended, which did not end."""
        return sum(
            event.shared and event.key not in self.counts
            for event in self.log.events
            if isinstance(event, Row)
        )

    def _arrivals(self) -> Iterator[Arrival]:
        ints = self.log.ints
        for number in range(ints[hook.CALLS_AT] if ints else 0):
            at = hook.HEADER + hook.ROWS * hook.FIELDS + number * hook.CALL
            key, start_ns, took_ns, packed = ints[at : at + hook.CALL]
            yield Arrival(
                key=key, start_ns=start_ns - self.start_ns, took_ns=took_ns, thread=packed >> 16,
                active=packed & 0xFFFF,
            )  # fmt: skip


def _own_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables without the recorder's library in LD_PRELOAD."""
    preload = native.without(variables.get(native.VARIABLE, ""))
    kept = {name: value for name, value in variables.items() if name != native.VARIABLE}
    return {**kept, native.VARIABLE: preload} if preload else kept


def _shape(shape: list[int | str] | None) -> tuple[int, ...] | None:
    return tuple(size for size in shape if isinstance(size, int)) if shape is not None else None


def _names(providers: Sequence[Any]) -> tuple[str, ...]:
    """Return ONNX Runtime's names of providers, which are given with or without options, or by names of its C API."""
    names = (str(each[0] if isinstance(each, list) else each) for each in providers)
    return tuple(_by_short_name().get(name.lower(), name) for name in names)


@cache
def _by_short_name() -> dict[str, str]:
    return {p.bindings.by_name.lower(): p.name for p in all_providers() if p.bindings.by_name}


def _values(options: Any) -> dict[str, Value] | None:
    return None if options is None else {name: value for name, value in options.items() if value is not None}
