"""What the figures rest on."""

from __future__ import annotations

from ortune.report import profile_words as words
from ortune.report.html.profile import Given

ORDER = 95
TITLE = "Notes"
NOTE = "What the figures rest on, and what the trace does not hold."


def content(given: Given) -> dict[str, object] | None:
    """Notes and exports; None where there are none."""
    result = given.result
    notes = [("runs", words.variance(result)), ("memory", words.memory_line(result)), *words.notes(result)]
    notes = [(name, text) for name, text in notes if text]
    notes += [("written", f"{kind}: {path}") for kind, path in result.exports.items()]
    return {"notes": notes} if notes else None
