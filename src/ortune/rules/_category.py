"""Code shared by rules on a time category of a profile."""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import CategoryName, Finding
from ortune.rules._words import NAMED, called, percent, place
from ortune.rules.facts import Facts

_WORTH_SAYING = 0.05


def share_of_run(
    facts: Facts, code: str, category: CategoryName, least: float, words: str
) -> Iterator[Finding]:
    """Yield a finding if a category takes more than a fraction ``least`` of the run; ``words`` follow "of the run"."""
    share = facts.share(category)
    if share > least:
        yield Finding(code=code, what=f"{percent(share)} of the run {words}", share_ratio=share)


def part_of_run(facts: Facts, code: str, category: CategoryName, words: str) -> Iterator[Finding]:
    """Yield a finding with the slowest nodes of a category, if the category takes more than 5 % of the profiled run."""
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
