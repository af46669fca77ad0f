"""Rules in words: one in full, or all in a table."""

from __future__ import annotations

from ortune.records import Described, Envelope, ExplainResult
from ortune.report.document import Block, Code, Column, Document, Line, Pairs, table

TIERS = {
    "stable": "",
    "preview": "in preview: documented, not reproduced here; asked with --preview or by its code",
    "if-measured": "seldom pays where it fires; asked by its code, and by verbs that measure its fix",
}


def document(envelope: Envelope[ExplainResult]) -> Document:
    """What a rule says of itself, or what there is."""
    result = envelope.result
    assert result is not None
    if result.whole:
        return Document(title=f"ortune explain {result.rules[0].code}", blocks=_whole(result.rules[0]))
    columns = [
        Column("code", "label"),
        Column("rule", "text"),
        Column("what it finds", "text"),
        Column("", "label"),
    ]
    rows = [(r.code, r.name, r.title, _state(r)) for r in result.rules]
    return Document(
        title="ortune explain",
        blocks=[
            table(columns, rows, dense=True),
            Line("ortune explain CODE says more; ortune check asks those marked with its name.", "faint"),
        ],
    )


def _state(rule: Described) -> str:
    return " ".join(filter(None, ("check" if rule.reads else "", rule.tier if rule.tier != "stable" else "")))


def _whole(rule: Described) -> list[Block]:
    blocks: list[Block] = [Line(f"{rule.code} {rule.name}: {rule.title}.", "strong")]
    if TIERS[rule.tier]:
        blocks.append(Line(TIERS[rule.tier]))
    blocks.append(Pairs(rows=list(rule.sections), stacked=True))
    if rule.bad:
        blocks.append(Code(title="a model that it fires on", lines=rule.bad.strip().splitlines()))
    return blocks
