"""The page was out of sight while it was watched.

What it is: the browser told that the page was hidden: another tab was in front of it, or its window was minimised or
    covered. Of ortune's own trials nothing that ran unseen counts: a turn is taken again, and a load or a first run
    that is to be a figure fails its trial.
Why it costs: browsers slow the timers of such a page, stop what it draws, and may put it to sleep, so that its times
    are not those of a page that somebody looks at.
Evidence: ``document.visibilityState``.
Fix and its safety: advice: leave the page in front, and watch it again.
Example: ``ortune diagnose --page http://localhost:5173 --headful``, with another window before the browser's
References: HTML specification, "page visibility"; Chrome's documentation, "Heavy throttling of chained JS timers".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "MSR011"


def find(facts: Facts) -> Iterator[Finding]:
    """Where a page told whether it was seen."""
    if facts.page is not None and not facts.page.visible:
        yield Finding(
            code=CODE,
            what="the page was hidden while it was watched, and browsers slow hidden pages down",
            fix="leave it in front and watch it again",
        )
