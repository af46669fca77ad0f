"""Result of a tuning without a winner: the nearest plan, and the potential that settings cannot reach."""

from __future__ import annotations

from ortune.records import Envelope
from ortune.show.document import Block, Pairs, Points
from ortune.verbs._shared import tune_facts
from ortune.verbs.tune import why_words as tune_why
from ortune.verbs.tune.result import TuneResult

ORDER = 2
TITLE = "Remaining options"
NOTE = "No change is proposed. The closest candidates, what no setting can improve, and what was not tested."


def blocks(envelope: Envelope[TuneResult]) -> list[Block]:
    """Return rows on the remaining potential, and the untested plans; [] if there is a winner."""
    result = envelope.result
    if not tune_facts.keeps_current(result):
        return []
    return [
        Pairs(rows=tune_why.left(result)),
        Points(items=tune_why.untested(result), title="Not tested"),
    ]
