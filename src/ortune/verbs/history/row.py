"""The row of a model among several that are run with the same releases."""

from __future__ import annotations

from ortune.records import Envelope, ModelRow
from ortune.verbs._shared.model_row import changed, of_answer
from ortune.verbs.history.result import HistoryResult
from ortune.verbs.history.words import headline, outputs


def row(envelope: Envelope[HistoryResult]) -> ModelRow:
    """Return the newest release against the oldest: outputs, the compared figure, load time and memory."""
    result = envelope.result
    differ = outputs(result)
    ran = [row.release for row in result.rows if row.figures is not None and not row.failed]
    failed = tuple(f"{row.release}: {row.failed}" for row in result.rows if row.failed)
    several = len(ran) > 2 and result.changed
    where = (f"changed in {', '.join(result.changed)}",) if several else ()
    return of_answer(
        envelope,
        headline(result),
        alarm=bool(differ),
        figures=changed(result.whole),
        remarks=(differ, *where, *failed),
    )
