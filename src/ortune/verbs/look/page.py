"""Page of a first look: the latency, the file, and the operators with their shares of the time."""

from __future__ import annotations

from dataclasses import replace

from ortune.records import Envelope
from ortune.show import finding_words, machine_words
from ortune.show.document import Column, Document, Head, Table, table
from ortune.show.numbers import duration
from ortune.verbs.look import words as look_words
from ortune.verbs.look.result import LookResult


def document(envelope: Envelope[LookResult]) -> Document:
    """Return the page of a first look."""
    result, plain = envelope.result, look_words.document(envelope)
    by_time = next((block for block in plain.blocks if isinstance(block, Table)), None)
    # An estimate of the operators has a separate table.
    blocks = [
        _operators(result) if block is by_time and not result.estimate else block for block in plain.blocks
    ]
    return replace(plain, blocks=blocks, head=_head(envelope))


def _head(envelope: Envelope[LookResult]) -> Head:
    """Return the head of the page: the latency, or why it is missing."""
    result = envelope.result
    origin = machine_words.origin(envelope.host, result.runtime.build if result.runtime else "")
    timing = result.timing
    if timing is None:
        return Head(unit="Does not run" if envelope.error else "Not timed", tone="unsure", origin=origin)
    if finding_words.functional_only(result.findings):
        return Head(unit="Functional only", tone="unsure", origin=origin)
    kind = "a run" if timing.warmed_up else "for the first run, not warmed up"
    return Head(
        large=duration(timing.latency_ns), unit=kind, tone="" if timing.warmed_up else "unsure", origin=origin
    )


def _operators(result: LookResult) -> Table:
    """Return a table of the operators by time or, without a profile, by their number of nodes in the file."""
    columns = [Column("", "text"), Column(""), Column(""), Column("")]
    rows = look_words.operator_rows(result)
    if rows and result.profile is not None:
        shares = [operator.share_ratio for operator in result.profile.operators[: len(rows)]]
        return table(columns, rows, title=look_words.profile_title(result), bars=shares)
    counts = look_words.operators_in_file(result)
    most = max((n for _, n in counts), default=1)
    return table(
        [Column("", "text"), Column("")],
        [(name, str(n)) for name, n in counts],
        title="nodes in file, by operator",
        bars=[n / most for _, n in counts],
    )
