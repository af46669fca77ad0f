"""The row of a tuned model among several."""

from __future__ import annotations

from ortune.records import Envelope, ModelRow
from ortune.verbs._shared import tune_facts
from ortune.verbs._shared.model_row import changed, of_answer, time_of, value_of
from ortune.verbs.tune.result import TuneResult


def row(envelope: Envelope[TuneResult]) -> ModelRow:
    """Return the row of a tuning with the winner's gain and plan."""
    result = envelope.result
    kept = tune_facts.keeps_current(result)
    claim = None if tune_facts.nothing_tested(result) else tune_facts.deciding_claim(result)
    figures = (*changed(claim)[:1], *time_of(None if kept else claim))
    if kept:
        figures = (*figures, *value_of(result.current_figures or result.default_figures, result.statistic))
    needs = () if kept else (result.winner.describe(),)
    return of_answer(envelope, result.headline, figures=figures, needs=needs)
