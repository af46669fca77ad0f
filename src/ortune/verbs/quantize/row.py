"""The row of one model in a quantization of several models."""

from __future__ import annotations

from ortune.records import Envelope, ModelRow, RowFigure
from ortune.verbs._shared.model_row import changed, of_answer
from ortune.verbs.quantize.result import QuantizeResult
from ortune.verbs.quantize.words import headline


def row(envelope: Envelope[QuantizeResult]) -> ModelRow:
    """Return a row with the gain, error, file size and plan of the winner, or only the comparison if float is kept."""
    result = envelope.result
    chosen = next((row for row in result.front if row.chosen and row.plan.rewrites), None)
    figures = changed(result.against_default)[:1]
    if chosen is not None:
        figures = (*figures, RowFigure(name="error", unit="share", value=chosen.error))
        if chosen.size_bytes:
            figures = (*figures, RowFigure(name="file", unit="bytes", value=chosen.size_bytes))
    needs = (chosen.plan.describe(),) if chosen is not None else ()
    return of_answer(envelope, headline(result), figures=figures, needs=needs)
