"""Decoding of ONNX Runtime's profiler events from JSON, tolerant of known defects.

An event is an object with its type (``cat`` and ``name``), time (``ts`` and ``dur``, microseconds), thread and
arguments. Argument values are strings, even for numbers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from ortune.trace.table import ABSENT

HOST = frozenset(("Node", "Session"))
"""Values of ``cat`` of host events."""
KERNEL_TIME = "_kernel_time"
"""Suffix of the names of events that contain a node's time."""

_SIGNED = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Process = _SIGNED | str
"""Type of process ids; tools that merge files of several hosts may write names instead."""
_SIZE = Annotated[int, Meta(ge=-1, le=2**62)]
_MICROSECONDS = Annotated[int, Meta(ge=-(2**43), le=2**43)]
_FARTHEST_US = float(1 << 53)
_LONGEST_US = float(1 << 43)  # 101 days
UNTIMED = float("nan")
"""Value of a missing or invalid event time."""


class MainThread(msgspec.Struct, gc=False):
    """Times that the thread of a node spends in the thread pool, in microseconds.

    Times are nested: ``DistributionEnqueue``, which is not read, in ``Distribution``, and ``WaitRevoke`` in ``Wait``,
    except for operators that run several loops in one parallel section.
    """

    distribution: _MICROSECONDS = msgspec.field(default=0, name="Distribution")
    wait: _MICROSECONDS = msgspec.field(default=0, name="Wait")
    revoke: _MICROSECONDS = msgspec.field(default=0, name="WaitRevoke")


class Helper(msgspec.Struct, gc=False):
    """Number of work items that another pool thread completed since the start of the profile, not only in this node."""

    num_run: _SIGNED = 0


class Threads(msgspec.Struct, gc=False):
    """``thread_scheduling_stats`` of a node event: the work of the main thread and of each helper."""

    main_thread: MainThread | None = None
    sub_threads: dict[str, Helper] = {}


class Args(msgspec.Struct, gc=False):
    """The ``args`` object of a profiler event.

    Node events have most of the fields. Device kernels have ``op_name``, ``parent_name`` and ``stream``; copies also
    have ``copied_bytes``.
    """

    op_name: str = ""
    provider: str = ""
    parent_name: str = ""
    stream: str = ""
    copied_bytes: str = ""
    node_index: _SIGNED = ABSENT
    graph_index: _SIGNED = ABSENT  # the same until 1.13
    output_size: _SIZE = ABSENT
    parameter_size: _SIZE = ABSENT
    activation_size: _SIZE = ABSENT
    mem_bytes_in_use: _SIZE = ABSENT
    mem_arena_held: _SIZE = ABSENT
    thread_scheduling_stats: Threads | str | None = None
    input_type_shape: msgspec.Raw = msgspec.Raw(b"")
    output_type_shape: msgspec.Raw = msgspec.Raw(b"")


class _BareEvent(msgspec.Struct, gc=False):
    name: str = ""
    cat: str = ""
    pid: _Process = 0
    tid: _SIGNED = 0
    ts: float = UNTIMED
    dur: float = UNTIMED


class ProfilerEvent(_BareEvent, gc=False):
    """An event of ONNX Runtime's profiler in Chrome's trace format; ``ts`` and ``dur`` are in microseconds."""

    args: Args = msgspec.field(default_factory=Args)

    @property
    def timed(self) -> bool:
        """Whether the event has a name and valid times."""
        return bool(self.name) and abs(self.ts) < _FARTHEST_US and 0 <= self.dur < _LONGEST_US

    @property
    def foreign(self) -> bool:
        """Whether this is a marker of another tool, which has no duration and is not a lost event."""
        return self.cat not in HOST and math.isnan(self.dur)


class _Who(msgspec.Struct, gc=False):
    op_name: str = ""
    provider: str = ""


class _Damaged(_BareEvent, gc=False):
    """An event with an invalid argument, whose type, node and times are still used."""

    args: _Who = msgspec.field(default_factory=_Who)


class _Document(msgspec.Struct):
    events: list[ProfilerEvent] = msgspec.field(name="traceEvents")


BROKEN = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Exceptions from decoding invalid JSON; deep nesting raises RecursionError."""

_many = msgspec.json.Decoder(list[ProfilerEvent], strict=False)
_one = msgspec.json.Decoder(ProfilerEvent, strict=False)
_damaged = msgspec.json.Decoder(_Damaged, strict=False)
_bare = msgspec.json.Decoder(_BareEvent, strict=False)
_document = msgspec.json.Decoder(_Document, strict=False)
_threads = msgspec.json.Decoder(Threads, strict=False)

_NAME = re.compile(rb'"name" ?: ?"')
_COMMA = re.compile(rb'("(?:[^"\\]|\\.)*+")|,(?=\s*[\]},])|(?<=[\[{])\s*,')
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z)|[{}]', re.DOTALL)


def many_events(text: bytes) -> list[ProfilerEvent]:
    """Decode a JSON array of well-formed events.

    Raises:
        msgspec.MsgspecError, UnicodeDecodeError, RecursionError: If the text is invalid (see ``BROKEN``). The events
            must then be decoded one by one.
    """
    return _many.decode(text)


class Decoded(NamedTuple):
    """A JSON object decoded as an event.

    Attributes:
        whole: Whether all arguments are valid.
        mended: Whether surplus commas were removed, since the text is not valid JSON.
    """

    event: ProfilerEvent
    whole: bool = True
    mended: bool = False


def one_event(text: bytes) -> Decoded | None:
    """Decode one JSON object; return None if it is not an event."""
    # From the strictest decoding to the most tolerant: the first that succeeds preserves the most.
    for spelling, mended in _spellings(text):
        try:
            return Decoded(_one.decode(spelling), mended=mended)
        except msgspec.ValidationError:
            pass
        except BROKEN:
            continue
        try:
            some = _damaged.decode(spelling)
            args = Args(op_name=some.args.op_name, provider=some.args.provider)
            event = ProfilerEvent(some.name, some.cat, some.pid, some.tid, some.ts, some.dur, args)
            return Decoded(event, whole=False, mended=mended)
        except BROKEN:
            pass
        try:
            bare = _bare.decode(spelling)
            event = ProfilerEvent(bare.name, bare.cat, bare.pid, bare.tid, bare.ts, bare.dur)
            return Decoded(event, whole=False, mended=mended)
        except msgspec.ValidationError:
            return None
        except BROKEN:
            continue  # an invalid value came before invalid JSON
    return None


def document_events(text: bytes) -> tuple[list[Decoded | None], bool]:
    """Return the events of a file without line structure: an array of events, or an object that contains such an array.

    Returns:
        The events, with None for each object that is not an event, and whether the end of the file is present.
    """
    try:
        return [Decoded(event) for event in _many.decode(text)], True
    except BROKEN:
        pass
    try:
        return [Decoded(event) for event in _document.decode(text).events], True
    except BROKEN:
        pass
    return [one_event(event) for event in _objects(text)], text.rstrip().endswith((b"]", b"}"))


def waiting(stats: Threads | str | None) -> tuple[int, int, dict[str, Helper]]:
    """Return the waiting time, imbalance and helper threads of a node's parallel work.

    Returns:
        Nanoseconds of waiting or distributing work; the part of this time at the end, waiting for other threads;
        the other pool threads. Without statistics: (``ABSENT``, ``ABSENT``, {}).
    """
    if isinstance(stats, str):
        try:
            stats = _threads.decode(stats.encode()) if stats else None
        except BROKEN:
            stats = None
    if stats is None or stats.main_thread is None:
        return ABSENT, ABSENT, {}
    main = stats.main_thread
    # If the spans are not nested, the shorter one is ignored, since it is negligible.
    late = max(0, 1000 * max(main.wait, main.revoke))
    return max(0, 1000 * main.distribution) + late, late, stats.sub_threads


def _spellings(text: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield the text, then corrected forms, each with whether surplus commas were removed."""
    yield text, False
    # For inputs that are not tensors, ONNX Runtime writes only the comma.
    fewer = _COMMA.sub(lambda match: match[1] or b"", text)
    if fewer != text:
        yield fewer, True
    # Names are not escaped in the file, quotes included; the text after them is ONNX Runtime's own.
    begin = _NAME.search(text)
    end = text.rfind(b'"args"')
    end = text.rfind(b'"', 0, end) if end > 0 else -1
    if begin and begin.end() <= end and not text[end + 1 :].partition(b'"')[0].strip(b", "):
        name = json.dumps(text[begin.end() : end].decode("utf-8", "replace"))[1:-1]
        before, after = text[: begin.end()], text[end:]
        yield f"{before.decode('utf-8', 'replace')}{name}{after.decode('utf-8', 'replace')}".encode(), False
    yield text.decode("utf-8", "replace").encode(), False


def _objects(text: bytes) -> Iterator[bytes]:
    """Yield the objects of the outermost array in any layout, except a truncated last one."""
    wanted = 2 if text.lstrip().startswith(b"{") else 1
    depth = start = 0
    for token in _TOKEN.finditer(text):
        what = token[0]
        if what == b"{":
            depth += 1
            if depth == wanted:
                start = token.start()
        elif what == b"}":
            if depth == wanted:
                yield text[start : token.end()]
            depth = max(0, depth - 1)
