"""Reader of ONNX Runtime's profiles: node executions with their times and runs.

The file is an array of Chrome trace events, one per line, in whole microseconds. Blocks of lines are read directly into
columns, so a file of gigabytes needs less memory than its size. A truncated file (crash, full disk) is read up to its
end, and a file that another tool reformatted is read as a whole. If a file contains several profiles, only the last is
read, since each has a separate clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from ortune import files
from ortune.errors import UsageError
from ortune.trace.builder import TraceBuilder
from ortune.trace.events import BROKEN, Decoded, ProfilerEvent, document_events, many_events, one_event
from ortune.trace.table import Trace

BLOCK_BYTES = 4 << 20
MOST_BYTES = 256 << 20
"""Maximum size in bytes of one line, and of a file without line structure, since both are kept in memory."""
_LOADING = "model_loading"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_OPENS = re.compile(rb"\[\s*(?:\{|\Z)")
_OBJECT = re.compile(rb'\s*\{[^\[\]]{0,4096}?"traceEvents"\s*:\s*(?=\[)')
_OBJECT_END = re.compile(rb"(?<=\})\s*\]\s*(?:,[^\[\]{}]*)?\}\s*$")


def read_profile(path: Path) -> Trace:
    """Return the trace in a profile that ONNX Runtime wrote.

    Raises:
        UsageError: If the file cannot be read, or has no events of ONNX Runtime.
    """
    reading = _Reading()
    try:
        with files.open_file(path) as file:
            for block in _blocks(file, path):
                reading.take(block)
        if not reading.builder.n_events:
            # ONNX Runtime writes one event per line. A reformatted file is one document and is read whole.
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


def is_first(event: ProfilerEvent) -> bool:
    """Return whether an event is the first event of a profile, which records the loading of the model."""
    return event.cat == "Session" and event.name.startswith(_LOADING)


def _too_long(path: Path) -> UsageError:
    return UsageError(
        f"has no line break in {MOST_BYTES >> 20} MiB, so ONNX Runtime did not write it",
        where=str(path),
        do="write each event on a line of its own, or profile fewer runs",
    )


def _blocks(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield the file in blocks that end at a line end; the last block may end anywhere."""
    rest: list[bytes] = []
    n_bytes = 0
    first = True
    while piece := file.read(BLOCK_BYTES):
        if first:
            piece = piece.removeprefix(BYTE_ORDER_MARK)
            # Chrome's other form is an object with the array.
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
    """State of the reader while it reads a file.

    Attributes:
        builder: Builder of the latest profile in the file.
    """

    def __init__(self) -> None:
        self.builder = TraceBuilder()
        self._n_earlier = 0
        self._waiting: list[ProfilerEvent] = []

    def missing(self) -> list[str]:
        """Return sentences about the parts of the file that are missing in the trace."""
        n = self._n_earlier
        return [f"earlier profiles in the same file, which are ignored: {n}"] if n else []

    def take(self, text: bytes) -> None:
        """Process whole lines: together if all are valid events, else one by one."""
        whole = text.strip()
        begins, ends = whole.startswith(b"["), whole.endswith(b"]")
        if _OPENS.match(whole):
            self._begin()
        # True counts as 1: a bracket is cut off if present.
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

    def take_events(self, events: Sequence[ProfilerEvent]) -> None:
        """Pass events to the builder, which is replaced where a new profile begins."""
        first = 0
        for i, event in enumerate(events):
            if is_first(event):
                self.builder.take(events[first:i])
                self._begin()
                first = i
        self.builder.take(events[first:])

    def take_decoded(self, decoded: Iterable[Decoded | None]) -> None:
        """Process events that were decoded one by one; None marks an object that is not an event."""
        for one in decoded:
            if one is None:
                self._lose(b"")
            else:
                self._add(one)
        self._flush()

    def _begin(self) -> None:
        """Start a new profile, dropping the events of an earlier one."""
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
        """Pass on the events that were decoded one by one and collected."""
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
            elif line.endswith(b"\n"):  # a truncated last line is not an error
                self._lose(line)
            self.builder.complete = closed and one is not None
        self._flush()
