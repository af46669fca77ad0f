"""Rules, rewrites and settings in words: one entry in full, or several entries in a table."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.printable import amount
from ortune.records import Envelope
from ortune.show.document import Block, Code, Column, Document, Line, Pairs, Table, table
from ortune.verbs.explain.result import Described, ExplainResult

TIERS = {
    "stable": "",
    "preview": "Preview: documented elsewhere, but no test has reproduced it. Enable it with --preview or by its code.",
    "if-measured": "The fix seldom helps. Enable the rule by its code; commands that measure the fix include it.",
}


def document(envelope: Envelope[ExplainResult]) -> Document:
    """Return the documentation of an entry, the results of a search, or the list of rules."""
    result = envelope.result
    assert result is not None
    if result.whole:
        entry = result.rules[0]
        also = _table(result.rules[1:], "see also")
        return Document(title=f"ortune explain {entry.code or entry.name}", blocks=[*_whole(entry), also])
    if result.search:
        return _hits(result)
    columns = [
        Column("code", "label"),
        Column("rule", "text"),
        Column("description", "text"),
        Column("", "label"),
    ]
    rows = [(r.code, r.name, r.title, _state(r)) for r in result.rules]
    return Document(
        title="ortune explain",
        blocks=[
            table(columns, rows, dense=True),
            Line("ortune explain CODE shows details; ortune check uses the rules marked 'check'.", "faint"),
        ],
    )


def _hits(result: ExplainResult) -> Document:
    """Return the document that lists the entries that match a search."""
    n = len(result.rules)
    entries = amount(n, "entry matches", "entries match")
    return Document(
        title="ortune explain",
        blocks=[
            Line(f"{entries} {result.search!r}", "strong"),
            _table(result.rules, ""),
            Code(
                title="next",
                lines=[f"ortune explain {result.rules[0].code or result.rules[0].name}"],
                commands=True,
            ),
        ],
    )


def _table(entries: Sequence[Described], title: str) -> Table:
    columns = [Column("", "label"), Column("name", "text"), Column("description", "text")]
    return table(columns, [(e.code or e.kind, e.name, e.title) for e in entries], title=title, dense=True)


def _state(rule: Described) -> str:
    return " ".join(filter(None, ("check" if rule.reads else "", rule.tier if rule.tier != "stable" else "")))


def _whole(rule: Described) -> list[Block]:
    name = f"{rule.code} {rule.name}" if rule.code else f"{rule.kind} {rule.name}"
    blocks: list[Block] = [Line(f"{name}: {rule.title}.", "strong")]
    if TIERS[rule.tier]:
        blocks.append(Line(TIERS[rule.tier]))
    blocks.append(Pairs(rows=list(rule.sections), stacked=True))
    if rule.bad:
        blocks.append(Code(title="a model with this finding", lines=rule.bad.strip().splitlines()))
    return blocks
