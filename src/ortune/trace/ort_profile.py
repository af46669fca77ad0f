"""Reads the profile that ONNX Runtime writes: which node ran when, for how long, in which run.

The file is an array of Chrome trace events, one a line; times are whole microseconds. It is read in blocks of lines
straight into columns, so that a file of gigabytes needs less memory than its size. A file that was cut off (a crash, a
full disk) is read as far as it goes, and one that another tool laid out differently is read as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ortune.errors import UsageError
from ortune.trace.events import BROKEN, Event, document_events, many_events, one_event
from ortune.trace.growing import Growing
from ortune.trace.table import Trace

BLOCK_BYTES = 4 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_OBJECT = re.compile(rb'\s*\{[^\[\]]{0,4096}?"traceEvents"\s*:\s*(?=\[)')
_OBJECT_END = re.compile(rb"(?<=\})\s*\]\s*(?:,[^\[\]{}]*)?\}\s*$")


def read_profile(path: Path) -> Trace:
    """Reads a profile.

    Raises:
        UsageError: The file cannot be read, or no event of ONNX Runtime is in it.
    """
    growing = Growing()
    try:
        with path.open("rb") as file:
            for block in _blocks(file):
                _take(growing, block)
        if not growing.n_events:
            growing = Growing()
            found = document_events(path.read_bytes().removeprefix(BYTE_ORDER_MARK))
            events, growing.n_damaged, growing.n_unreadable, growing.complete = found
            growing.take(events)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from error
    if not growing.n_known:
        what = "it holds no trace event" if not growing.n_events else "its events are another tool's"
        raise UsageError(
            f"is no profile of ONNX Runtime: {what}",
            where=str(path),
            do="give the file that end_profiling() names",
        )
    return growing.trace("ort-json")


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """The file in pieces that end with a line."""
    rest: list[bytes] = []
    first = True
    while piece := file.read(BLOCK_BYTES):
        if first:
            piece = piece.removeprefix(BYTE_ORDER_MARK)
            # Chrome's other form, an object around the array.
            piece = piece[head.end() :] if (head := _OBJECT.match(piece)) else piece
            first = False
        cut = piece.rfind(b"\n") + 1
        if cut:
            yield b"".join([*rest, piece[:cut]])
            rest = []
        rest.append(piece[cut:])
    if last := b"".join(rest):
        yield last


def _take(growing: Growing, text: bytes) -> None:
    """Takes whole lines: all at once where they are as they should be, else one by one."""
    whole = text.strip()
    begins, ends = whole.startswith(b"["), whole.endswith(b"]")
    body = whole[begins : len(whole) - ends].strip().rstrip(b",")
    if not body:
        growing.complete = growing.complete or ends
        return
    try:
        events = many_events(b"[%b]" % body)
    except BROKEN:
        events = list(_lines(growing, text))
    else:
        growing.complete = ends
    growing.take(events)


def _lines(growing: Growing, text: bytes) -> Iterator[Event]:
    for line in text.splitlines(keepends=True):
        event = line.strip().rstrip(b",")
        if event in (b"", b"["):
            continue
        if event.startswith(b"]"):
            growing.complete = True
            continue
        closed = event.endswith(b"}]")
        found = one_event(event[: len(event) - closed].removeprefix(b"["))
        if found is None and (end := _OBJECT_END.search(event)):
            closed, found = True, one_event(event[: end.start()])
        if found is None:
            # The last line of a file that was cut off is no error in it.
            growing.n_unreadable += line.endswith(b"\n")
            growing.complete = False
            continue
        growing.complete = closed
        growing.n_damaged += not found[1]
        yield found[0]
