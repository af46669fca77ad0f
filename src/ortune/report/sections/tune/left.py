"""Without a winner: how near the nearest came, what settings cannot reach, and the commands that go on."""

from __future__ import annotations

from ortune.records import Envelope, TuneResult
from ortune.report import tune_why
from ortune.report import tune_words as words
from ortune.report.document import Block, Code, Pairs

ORDER = 2
TITLE = "What else there is"
NOTE = "No change is proposed. What came nearest, what no setting reaches, and what was not tested yet."


def blocks(envelope: Envelope[TuneResult]) -> list[Block]:
    """Facts and commands; none where something won."""
    result = envelope.result
    if words.replaces(result):
        return []
    next_commands = tune_why.next_commands(result)
    return [Pairs(rows=tune_why.left(result)), Code(title="Next", lines=next_commands, commands=True)]
