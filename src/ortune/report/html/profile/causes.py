"""What stands out, before where the time goes: the cause is what a reader came for."""

from __future__ import annotations

from ortune.report import profile_words as words
from ortune.report.html.profile import Given

ORDER = 15
TITLE = "What stands out"
NOTE = "The weightiest first."


def content(given: Given) -> dict[str, object] | None:
    """A sentence each; None where nothing does."""
    found = words.findings(given.result)
    return {"findings": found} if found else None
