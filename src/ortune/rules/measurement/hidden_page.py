"""The page was hidden while it was observed.

What it is: the browser reported that the page was hidden: another tab was in front, or its window was minimised or
    covered. In ortune's own trials, hidden turns are repeated, and a hidden load or first run fails the trial.
Why it costs: browsers throttle the timers of hidden pages, stop rendering, and may suspend them, so times do not match
    those of a visible page.
Evidence: ``document.visibilityState``.
Fix and its safety: advice: keep the page visible, and observe it again.
Example: ``ortune diagnose --page http://localhost:5173 --headful``, with another window in front of the browser
References: HTML specification, "page visibility"; Chrome's documentation, "Heavy throttling of chained JS timers".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "MSR011"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the observed page was hidden."""
    if facts.page is not None and not facts.page.visible:
        yield Finding(
            code=CODE,
            what="the page was hidden while it was observed, and browsers slow hidden pages down",
            fix="keep the page visible, and run the command again",
        )
