"""The row of a locked or checked model among several."""

from __future__ import annotations

from ortune.records import Envelope, ModelRow, RowFigure
from ortune.verbs._shared.model_row import of_answer
from ortune.verbs.lock.result import LockResult


def row(envelope: Envelope[LockResult]) -> ModelRow:
    """Return the row of a model: the number of relevant changes, or the file that was written."""
    result = envelope.result
    failing = sum(change.fails for change in result.changes)
    figures = () if result.written else (RowFigure(name="changes", unit="count", value=failing),)
    outputs = any(change.fails and change.part.startswith("output") for change in result.changes)
    return of_answer(
        envelope, result.headline, alarm=outputs, figures=figures, needs=(result.path,), remarks=result.notes
    )
