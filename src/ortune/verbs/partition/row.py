"""Row of one of several models in a table of accelerator support."""

from __future__ import annotations

from ortune.records import Envelope, ModelRow, RowFigure
from ortune.verbs._shared.model_row import of_answer
from ortune.verbs.partition.result import PartitionResult
from ortune.verbs.partition.words import NAMES, VERDICTS, best_state, how, rank


def row(envelope: Envelope[PartitionResult]) -> ModelRow:
    """Return the row of a model: the support of the best provider, and the rewrites that it requires."""
    result = envelope.result
    first = min(result.providers, key=rank)
    state = best_state(first)
    figures = (
        RowFigure(name="supported work", unit="share", value=state.work_ratio),
        RowFigure(name="regions", unit="count", value=state.regions),
    )
    return of_answer(
        envelope,
        result.headline,
        answer=VERDICTS[state.verdict],
        figures=figures,
        needs=(f"{NAMES[first.provider]}{how(state)}",),
    )
