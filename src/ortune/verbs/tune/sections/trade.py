"""The other optima: fastest, least CPU, least memory."""

from __future__ import annotations

from dataclasses import replace

from ortune.records import Envelope
from ortune.show.document import Block, Cell, Column, table
from ortune.verbs.tune import details as tune_details
from ortune.verbs.tune import words as tune_words
from ortune.verbs.tune.result import TuneResult

ORDER = 60
TITLE = "Trade-offs"
NOTE = (
    "The best configuration for each figure. Only the objective's own row can be confirmed, on fresh blocks; the "
    "others are from few blocks of the search. Tune with that objective before relying on them."
)


def blocks(envelope: Envelope[TuneResult]) -> list[Block]:
    """Return a table with one row for each optimum."""
    best, plan, *figures, standing = tune_details.TRADE
    columns = [
        replace(best, head="best by"),
        Column(plan.head, "name"),
        *figures,
        replace(standing, head="standing"),
    ]
    rows = [
        [Cell(text, tone="strong" if cells[-1] == tune_details.CONFIRMED else "") for text in cells]
        for cells in tune_details.trade_rows(envelope.result, tune_words.figures_table(envelope.result))
    ]
    return [table(columns, rows)]
