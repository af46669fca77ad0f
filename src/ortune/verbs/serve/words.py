"""Text of a benchmark in a browser on another device: the text of a benchmark, with the connected browser."""

from __future__ import annotations

from ortune.records import Envelope
from ortune.show.document import Document, Line
from ortune.show.stored_kind import StoredKind
from ortune.verbs.bench import words as bench_words
from ortune.verbs.bench.result import BenchResult


def document(envelope: Envelope[BenchResult]) -> Document:
    """Return the document of a benchmark, with the connected browser below the headlines."""
    bench, host = bench_words.document(envelope), envelope.host
    if host is None:
        return bench
    where = f"in {host.cpu}, {host.logical} logical processors"
    return bench.with_below_lines(Line(where))


STORED = StoredKind(
    result=BenchResult,
    document=document,
    headline=bench_words.headlines,
)
