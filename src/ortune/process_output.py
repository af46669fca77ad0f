"""Reading the output of a process in a thread, until its end, or ``Child.end`` if another process keeps it open."""

from __future__ import annotations

import contextlib
import math
import os
import queue
import select
from collections.abc import Iterator, Sequence
from typing import IO

from ortune import monotonic

OUTPUT_BYTES = 4 << 20
"""Maximum bytes kept from the end of each output stream, which shows how a command ended."""
LINE_BYTES = 128 << 20
"""Maximum length of a line, since a process may run any code and must not fill memory."""
LAST_WORDS_S = 1.0
"""Seconds for which output is still read after the end of a process.

A pipe ends with the last process that writes to it, and a process that left the group may outlive the others.
"""


def queue_lines(stream: IO[bytes], lines: queue.Queue[bytes | None], ended: int) -> None:
    """Queue the lines of a stream until its end, or until the process has ended and the queue remains full."""
    with stream, os.fdopen(ended, "rb") as end:
        for line in _lines(_chunks(stream, end)):
            if not _queued(lines, line, end):
                return
        _queued(lines, None, end)


def _queued(lines: queue.Queue[bytes | None], line: bytes | None, end: IO[bytes]) -> bool:
    """Put a line into a queue as soon as there is room; return False if there is none after the end of the process."""
    while True:
        with contextlib.suppress(queue.Full):
            lines.put(line, timeout=LAST_WORDS_S)
            return True
        if _ready([end], 0.0) == [end] and os.name == "posix":
            return False


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines of a stream, including line ends; stop at a line that is too long."""
    line = bytearray()
    for chunk in chunks:
        *whole, left = chunk.split(b"\n")
        for part in whole:
            line += part + b"\n"
            if len(line) > LINE_BYTES:
                return
            yield bytes(line)
            line.clear()
        line += left
        if len(line) > LINE_BYTES:
            return
    if line:
        yield bytes(line)


def keep_end(stream: IO[bytes], text: bytearray, ended: int) -> None:
    """Keep the last ``OUTPUT_BYTES`` of a stream in ``text``, until the end of the stream or of the process."""
    with stream, os.fdopen(ended, "rb") as end:
        for chunk in _chunks(stream, end):
            text += chunk
            del text[:-OUTPUT_BYTES]


def _chunks(stream: IO[bytes], end: IO[bytes]) -> Iterator[bytes]:
    """Yield the bytes that arrive in a stream, until its end or shortly after the end of the process."""
    deadline_s = math.inf
    while ready := _ready([stream, end] if deadline_s == math.inf else [stream], deadline_s):
        if end in ready:
            deadline_s = monotonic.now_s() + LAST_WORDS_S
        if stream not in ready:
            continue
        chunk = os.read(stream.fileno(), 1 << 16)
        if not chunk or monotonic.now_s() > deadline_s:
            return
        yield chunk


def _ready(files: Sequence[IO[bytes]], deadline_s: float) -> list[IO[bytes]]:
    """Return the files that can be read, as soon as there is one; [] after the deadline on the monotonic clock."""
    if not hasattr(select, "poll"):  # Windows waits in the read
        return list(files[:1])
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    left_s = max(0.0, deadline_s - monotonic.now_s())
    found = {number for number, _ in poll.poll(None if deadline_s == math.inf else 1000 * left_s)}
    return [file for file in files if file.fileno() in found]
