"""The events of ONNX Runtime's profiler, decoded from JSON with as much mercy as keeps them true.

An event is one object: what it is (``cat`` and ``name``), when it was (``ts`` and ``dur``, microseconds), the thread,
and arguments. Their values are text, also where they mean numbers.
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
"""Categories of what the host did."""
KERNEL_TIME = "_kernel_time"
"""Suffix of the events that hold a node's time."""

_SIGNED = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Process = _SIGNED | str
"""What merges files of several hosts may name theirs."""
_SIZE = Annotated[int, Meta(ge=-1, le=2**62)]
_MICROSECONDS = Annotated[int, Meta(ge=-(2**43), le=2**43)]
_FARTHEST_US = float(1 << 53)
_LONGEST_US = float(1 << 43)  # 101 days
UNTIMED = float("nan")
"""The time of an event that has none."""


class MainThread(msgspec.Struct, gc=False):
    """Time of a node's own thread in the thread pool, microseconds.

    Spans lie in each other: ``DistributionEnqueue``, which is not read, always in ``Distribution``; ``WaitRevoke`` in
    ``Wait``, but for operators that run several loops in one parallel section.
    """

    distribution: _MICROSECONDS = msgspec.field(default=0, name="Distribution")
    wait: _MICROSECONDS = msgspec.field(default=0, name="Wait")
    revoke: _MICROSECONDS = msgspec.field(default=0, name="WaitRevoke")


class Helper(msgspec.Struct, gc=False):
    """How many pieces of work another thread of the pool took since the profile began, not in this node alone."""

    num_run: _SIGNED = 0


class Threads(msgspec.Struct, gc=False):
    """``thread_scheduling_stats`` of a node."""

    main_thread: MainThread | None = None
    sub_threads: dict[str, Helper] = {}


class Args(msgspec.Struct, gc=False):
    """The arguments of a node's event.

    Those of kernels on a device have ``op_name``, ``parent_name`` and ``stream``, those of copies ``copied_bytes`` too.
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


class Event(msgspec.Struct, gc=False):
    """One event."""

    name: str = ""
    cat: str = ""
    pid: _Process = 0
    tid: _SIGNED = 0
    ts: float = UNTIMED
    dur: float = UNTIMED
    args: Args = msgspec.field(default_factory=Args)

    @property
    def timed(self) -> bool:
        """Whether the event has a name and valid times."""
        return bool(self.name) and abs(self.ts) < _FARTHEST_US and 0 <= self.dur < _LONGEST_US

    @property
    def foreign(self) -> bool:
        """Another tool's mark, which has no length: no loss."""
        return self.cat not in HOST and math.isnan(self.dur)


class _Who(msgspec.Struct, gc=False):
    op_name: str = ""
    provider: str = ""


class _Damaged(msgspec.Struct, gc=False):
    """An event with an argument that is not as expected: what it is, which node and when, still count."""

    name: str = ""
    cat: str = ""
    pid: _Process = 0
    tid: _SIGNED = 0
    ts: float = UNTIMED
    dur: float = UNTIMED
    args: _Who = msgspec.field(default_factory=_Who)


class _Bare(msgspec.Struct, gc=False):
    name: str = ""
    cat: str = ""
    pid: _Process = 0
    tid: _SIGNED = 0
    ts: float = UNTIMED
    dur: float = UNTIMED


class _Document(msgspec.Struct):
    events: list[Event] = msgspec.field(name="traceEvents")


BROKEN = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for text that is no such JSON; deep nesting ends in the last of them."""

_many = msgspec.json.Decoder(list[Event], strict=False)
_one = msgspec.json.Decoder(Event, strict=False)
_damaged = msgspec.json.Decoder(_Damaged, strict=False)
_bare = msgspec.json.Decoder(_Bare, strict=False)
_document = msgspec.json.Decoder(_Document, strict=False)
_threads = msgspec.json.Decoder(Threads, strict=False)

_NAME = re.compile(rb'"name" ?: ?"')
_COMMA = re.compile(rb'("(?:[^"\\]|\\.)*+")|,(?=\s*[\]},])|(?<=[\[{])\s*,')
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z)|[{}]', re.DOTALL)


def many_events(text: bytes) -> list[Event]:
    """Decode a JSON array of well-formed events.

    Raises:
        msgspec.MsgspecError, UnicodeDecodeError, RecursionError: ``BROKEN``; read them one by one.
    """
    return _many.decode(text)


class Decoded(NamedTuple):
    """A JSON object decoded as an event.

    Attributes:
        whole: All its arguments are as expected.
        mended: It is no JSON, and was read without the commas that are too many.
    """

    event: Event
    whole: bool = True
    mended: bool = False


def one_event(text: bytes) -> Decoded | None:
    """Decode one JSON object; None if it is no event."""
    # From the strictest reading to the most forgiving one: the first that succeeds keeps most of what is
    # true.
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
            event = Event(some.name, some.cat, some.pid, some.tid, some.ts, some.dur, args)
            return Decoded(event, whole=False, mended=mended)
        except BROKEN:
            pass
        try:
            bare = _bare.decode(spelling)
            event = Event(bare.name, bare.cat, bare.pid, bare.tid, bare.ts, bare.dur)
            return Decoded(event, whole=False, mended=mended)
        except msgspec.ValidationError:
            return None
        except BROKEN:
            continue  # what is not as expected came before what is no JSON
    return None


def document_events(text: bytes) -> tuple[list[Decoded | None], bool]:
    """Return the events of a file that is laid out in another way: one array, or an object that holds it.

    Returns:
        The events, None for each object that is no event; and whether the end is there.
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
        Nanoseconds that it waited or shared out work; those of them that it waited at the end, when others were not
        done; the pool's other threads. ``ABSENT`` and none without statistics.
    """
    if isinstance(stats, str):
        try:
            stats = _threads.decode(stats.encode()) if stats else None
        except BROKEN:
            stats = None
    if stats is None or stats.main_thread is None:
        return ABSENT, ABSENT, {}
    main = stats.main_thread
    # Where the two do not lie in each other, the shorter is not counted: it cannot be told, and is next to nothing.
    late = max(0, 1000 * max(main.wait, main.revoke))
    return max(0, 1000 * main.distribution) + late, late, stats.sub_threads


def _spellings(text: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield the text itself, then what it must have meant, and whether commas too many are left out of it."""
    yield text, False
    # Of inputs that are no tensors ONNX Runtime writes the comma alone.
    fewer = _COMMA.sub(lambda match: match[1] or b"", text)
    if fewer != text:
        yield fewer, True
    # Names stand in the file as they are, quotes included; what follows them is ONNX Runtime's own.
    begin = _NAME.search(text)
    end = text.rfind(b'"args"')
    end = text.rfind(b'"', 0, end) if end > 0 else -1
    if begin and begin.end() <= end and not text[end + 1 :].partition(b'"')[0].strip(b", "):
        name = json.dumps(text[begin.end() : end].decode("utf-8", "replace"))[1:-1]
        before, after = text[: begin.end()], text[end:]
        yield f"{before.decode('utf-8', 'replace')}{name}{after.decode('utf-8', 'replace')}".encode(), False
    yield text.decode("utf-8", "replace").encode(), False


def _objects(text: bytes) -> Iterator[bytes]:
    """The objects of the outermost array, however they are laid out; the last one may be cut off, and is left out."""
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
