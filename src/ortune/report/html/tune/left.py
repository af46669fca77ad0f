"""Without a winner: how near the nearest came, what settings cannot reach, and the commands that go on."""

from __future__ import annotations

from ortune.records import Envelope, TuneResult
from ortune.report import tune_why
from ortune.report import tune_words as words

ORDER = 2
TITLE = "What else there is"
NOTE = "No change is proposed. What came nearest, what no setting reaches, and what was not tested yet."


def content(envelope: Envelope[TuneResult]) -> dict[str, object] | None:
    """Facts and commands; None where something won."""
    result = envelope.result
    if result.winner != (words.today(result) or result.default):
        return None
    rows, commands = tune_why.left(result), tune_why.next_commands(result)
    return {"rows": rows, "commands": commands} if rows or commands else None
