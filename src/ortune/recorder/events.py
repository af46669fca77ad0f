"""Records of the lines in a recorder's log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec


class Process(msgspec.Struct, tag_field="e", tag="process"):
    """Event: a process imported onnxruntime; describes the process."""

    format: int
    pid: int
    parent: str
    ns: int
    python: str
    executable: str
    argv: list[str]
    cpus: list[int]
    version: str
    home: str
    variables: dict[str, str]


class Frames(msgspec.Struct, tag_field="e", tag="frames"):
    """Event: a call stack, innermost frame first, as file, line and function."""

    id: int
    v: list[tuple[str, int, str]]


class Text(msgspec.Struct, tag_field="e"):
    """Event: a value as JSON text, with the number by which other events refer to it."""

    id: int
    v: str


class Cpus(Text, tag="cpus"):
    """Event: CPUs that the threads of a session may use."""


class Model(Text, tag="model"):
    """Event: a model of a session, with its file or the sha256 of its bytes."""


class Options(Text, tag="options"):
    """Event: the settings of a session."""


class Providers(Text, tag="providers"):
    """Event: the requested execution providers, and those that the session uses."""


Shaped = tuple[str, str, list[int | str] | None]


class Signature(msgspec.Struct, tag_field="e", tag="signature"):
    """Event: the method, inputs and outputs of a call."""

    id: int
    v: tuple[str, list[Shaped]]
    outputs: list[tuple[str, list[int | str] | None]]


class Session(msgspec.Struct, tag_field="e", tag="session"):
    """Event: a session was created, or could not be created."""

    id: int
    ns: int
    took_ns: int
    failed: str
    loop: bool
    tids: list[int] | None
    thread: int
    model: int
    asked: int
    used: int
    providers: int
    frames: int
    config_from_model: bool = False
    memory_bytes: int | None = None
    writes_model: bool = False
    message: str = ""


class Placed(msgspec.Struct, tag_field="e", tag="placed"):
    """Event: number of a session's threads, and the CPUs that they may use."""

    id: int
    threads: int
    cpus: int


class Row(msgspec.Struct, tag_field="e", tag="row"):
    """Event: a new row of counters, for calls with the same signature and call site."""

    key: int
    session: int
    frames: int
    signature: int
    shared: bool
    read: list[int] | None = None


class Closed(msgspec.Struct, tag_field="e", tag="closed"):
    """Event: the object of a session was freed; contains its counters."""

    id: int
    ns: int
    rows: list[list[int]]
    again: bool = False


class Inherited(msgspec.Struct, tag_field="e", tag="inherited"):
    """Event: a session existed before a fork."""

    id: int
    of: int
    threads: int


class Forked(msgspec.Struct, tag_field="e", tag="forked"):
    """Event: the process is the child of a fork."""


class RecorderOff(msgspec.Struct, tag_field="e", tag="off"):
    """Event: the recorder was switched off, with the reason."""

    why: str


Event = (
    Process | Frames | Cpus | Model | Options | Providers | Signature | Session | Placed | Row | Closed
    | Inherited | Forked | RecorderOff
)  # fmt: skip
_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Event)


def parse(data: bytes) -> Iterator[Any]:
    """Yield the events of a log; a truncated last line is skipped."""
    for line in data.split(b"\n"):
        if line:
            try:
                yield _DECODER.decode(line)
            except msgspec.DecodeError:
                continue
