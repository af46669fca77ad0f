"""Cost of the winner's execution provider, and results of the other raced providers."""

from __future__ import annotations

from ortune.records import Envelope
from ortune.show.document import Block, Pairs
from ortune.verbs.tune import adoption_words
from ortune.verbs.tune.result import TuneResult

ORDER = 45
TITLE = "Execution providers"
NOTE = "Session creation and peak memory are medians over trials: descriptive only."


def blocks(envelope: Envelope[TuneResult]) -> list[Block]:
    """Return the rows on cost and results; [] if only the default's provider was raced."""
    result = envelope.result
    transfer = adoption_words.transfer(result)
    return [Pairs(rows=[*adoption_words.rows(result), *adoption_words.other_providers(result), *transfer])]
