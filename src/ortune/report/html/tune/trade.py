"""The other optima: fastest, least CPU, least memory."""

from __future__ import annotations

from ortune.records import Envelope, TuneResult
from ortune.report import tune_words as words

ORDER = 60
TITLE = "Trade-offs"
NOTE = (
    "The best plan by each figure. Only the objective's own row was confirmed on fresh blocks; the others are "
    "race data: tune with that objective before relying on them."
)


def content(envelope: Envelope[TuneResult]) -> dict[str, object] | None:
    """The rows as text; None where there are none."""
    result = envelope.result
    if not result.trade:
        return None
    return {"rows": [(words.trade_cells(row), row.confirmed) for row in result.trade]}
