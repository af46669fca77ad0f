"""What rules on a category of time have in common."""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import CategoryName, Finding
from ortune.rules._words import NAMED, called, percent, place
from ortune.rules.facts import Facts

_WORTH_SAYING = 0.05


def share_of_run(
    facts: Facts, code: str, category: CategoryName, least: float, words: str
) -> Iterator[Finding]:
    """Yield a category that takes more than that share of the profiled run, in words that follow "of the run"."""
    share = facts.share(category)
    if share > least:
        yield Finding(code=code, what=f"{percent(share)} of the run {words}", share_ratio=share)


def part_of_run(facts: Facts, code: str, category: CategoryName, words: str) -> Iterator[Finding]:
    """Yield a category that takes a part of the profiled run worth saying, with the dearest of its nodes."""
    share = facts.share(category)
    if share > _WORTH_SAYING:
        costly = [node for node in facts.nodes() if node.category == category]
        names = ", ".join(called(node) for node in costly[:NAMED])
        yield Finding(
            code=code,
            what=f"{percent(share)} of the run is {words}: {names}",
            where=place(costly),
            share_ratio=share,
        )
