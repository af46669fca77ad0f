"""Reads the profile that ONNX Runtime writes: which node ran when, for how long, in which run.

The file is an array of Chrome trace events, one a line; times are whole microseconds. It is read in blocks of lines
straight into columns, so that a file of gigabytes needs less memory than its size. A file that was cut off (a crash, a
full disk) is read as far as it goes, and one that another tool laid out differently is read as a whole. Of several
profiles in one file the last is read: each has a clock of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from ortune import files
from ortune.errors import UsageError
from ortune.trace.builder import TraceBuilder
from ortune.trace.events import BROKEN, Decoded, Event, document_events, many_events, one_event
from ortune.trace.table import Trace

BLOCK_BYTES = 4 << 20
MOST_BYTES = 256 << 20
"""Of one line, and of a file that is not laid out in lines: these are held in memory as a whole."""
_LOADING = "model_loading"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_OPENS = re.compile(rb"\[\s*(?:\{|\Z)")
_OBJECT = re.compile(rb'\s*\{[^\[\]]{0,4096}?"traceEvents"\s*:\s*(?=\[)')
_OBJECT_END = re.compile(rb"(?<=\})\s*\]\s*(?:,[^\[\]{}]*)?\}\s*$")


def read_profile(path: Path) -> Trace:
    """Read a profile.

    Raises:
        UsageError: The file cannot be read, or no event of ONNX Runtime is in it.
    """
    reading = _Reading()
    try:
        with files.open_file(path) as file:
            for block in _blocks(file, path):
                reading.take(block)
        if not reading.builder.n_events:
            # ONNX Runtime writes an event a line. A file that was laid out anew since is one document, read
            # whole.
            reading = _Reading()
            if path.stat().st_size > MOST_BYTES:
                raise _too_long(path)
            decoded, complete = document_events(files.read(path).removeprefix(BYTE_ORDER_MARK))
            reading.take_decoded(decoded)
            reading.builder.complete = complete
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from error
    builder = reading.builder
    if not builder.n_known:
        what = "it holds no trace event" if not builder.n_events else "its events are from another tool"
        raise UsageError(
            f"is not an ONNX Runtime profile: {what}",
            where=str(path),
            do="pass the file that end_profiling() returns",
        )
    return builder.trace("ort-json", reading.missing())


def is_first(event: Event) -> bool:
    """Return whether a profile begins with the loading of its model, whose clock is no other profile's."""
    return event.cat == "Session" and event.name.startswith(_LOADING)


def _too_long(path: Path) -> UsageError:
    return UsageError(
        f"has no line break in {MOST_BYTES >> 20} MiB, so ONNX Runtime did not write it",
        where=str(path),
        do="write each event on a line of its own, or profile fewer runs",
    )


def _blocks(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield the file in pieces that end with a line."""
    rest: list[bytes] = []
    n_bytes = 0
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
            rest, n_bytes = [], 0
        rest.append(piece[cut:])
        n_bytes += len(piece) - cut
        if n_bytes > MOST_BYTES:
            raise _too_long(path)
    if last := b"".join(rest):
        yield last


class _Reading:
    """A file while it is read.

    Attributes:
        builder: Of the profile that began last.
    """

    def __init__(self) -> None:
        self.builder = TraceBuilder()
        self._n_earlier = 0
        self._waiting: list[Event] = []

    def missing(self) -> list[str]:
        """Return what of the file is not in the trace."""
        n = self._n_earlier
        return [f"earlier profiles in the same file, which are ignored: {n}"] if n else []

    def take(self, text: bytes) -> None:
        """Take whole lines: all at once where they are as they should be, else one by one."""
        whole = text.strip()
        begins, ends = whole.startswith(b"["), whole.endswith(b"]")
        if _OPENS.match(whole):
            self._begin()
        # True counts as 1: a bracket is cut off where it is there.
        body = whole[begins : len(whole) - ends].strip().rstrip(b",")
        if not body:
            self.builder.complete = self.builder.complete or ends
            return
        try:
            events = many_events(b"[%b]" % body)
        except BROKEN:
            self._take_lines(text)
        else:
            self.take_events(events)
            self.builder.complete = ends

    def take_events(self, events: Sequence[Event]) -> None:
        """Take events, of one profile or of several."""
        first = 0
        for i, event in enumerate(events):
            if is_first(event):
                self.builder.take(events[first:i])
                self._begin()
                first = i
        self.builder.take(events[first:])

    def take_decoded(self, decoded: Iterable[Decoded | None]) -> None:
        """Take events that were decoded one by one; None for each object that is none."""
        for one in decoded:
            if one is None:
                self._lose(b"")
            else:
                self._add(one)
        self._flush()

    def _begin(self) -> None:
        """A profile begins here: what was taken was another's."""
        self._flush()
        if self.builder.n_events:
            self.builder = TraceBuilder()
            self._n_earlier += 1

    def _add(self, one: Decoded) -> None:
        if is_first(one.event):
            self._begin()
        self.builder.n_damaged += not one.whole
        self.builder.n_mended += one.mended
        self._waiting.append(one.event)

    def _lose(self, line: bytes) -> None:
        self._flush()
        self.builder.lose(line)

    def _flush(self) -> None:
        """Hand on the events that were read one by one."""
        self.builder.take(self._waiting)
        self._waiting = []

    def _take_lines(self, text: bytes) -> None:
        for line in text.splitlines(keepends=True):
            event = line.strip().rstrip(b",")
            if _OPENS.match(event):
                self._begin()
            if event in (b"", b"["):
                continue
            if event.startswith(b"]"):
                self.builder.complete = True
                continue
            closed = event.endswith(b"}]")
            one = one_event(event[: len(event) - closed].removeprefix(b"["))
            if one is None and (end := _OBJECT_END.search(event)):
                closed, one = True, one_event(event[: end.start()])
            if one is not None:
                self._add(one)
            elif line.endswith(b"\n"):  # the last line of a file that was cut off is no error in it
                self._lose(line)
            self.builder.complete = closed and one is not None
        self._flush()
