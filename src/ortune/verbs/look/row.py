"""The row of a model's first look among several."""

from __future__ import annotations

from ortune.records import Envelope, ModelRow, RowFigure
from ortune.verbs._shared.model_row import of_answer
from ortune.verbs.look.result import LookResult
from ortune.verbs.look.words import headline


def row(envelope: Envelope[LookResult]) -> ModelRow:
    """Return the row of a first look: the latency, a single observation, and the first finding."""
    result = envelope.result
    timing = result.timing
    figures = [RowFigure(name="parameters", unit="count", value=result.parameters)]
    if timing is not None:
        figures[:0] = [
            RowFigure(name="latency (one process)", unit="ns", value=timing.latency_ns),
            RowFigure(name="load time", unit="ns", value=timing.load_ns),
        ]
        if timing.peak_bytes is not None:
            figures.append(RowFigure(name="peak memory", unit="bytes", value=timing.peak_bytes))
    first = tuple(finding.sentence() for finding in result.findings[:1])
    said = headline(result) or (envelope.error.what if envelope.error else "")
    return of_answer(envelope, said, figures=tuple(figures), remarks=first)
