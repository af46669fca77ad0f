"""A document as Markdown, for pull requests and other pages; all texts are escaped by ``_safe``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ortune.show.chart import Chart
from ortune.show.document import (
    Block,
    Cell,
    Code,
    Column,
    Document,
    Fold,
    Line,
    Pairs,
    Points,
    Section,
    Table,
    filled,
    title_of,
)
from ortune.show.escape import shown
from ortune.show.numbers import shorten

LONGEST = 120
"""Maximum number of characters of a name in a table."""
_SIGNS = "\\`*_{}[]<>|#~$"
_LINK = re.compile(r"(?<!\w)@(?=\w)|(?<=www)\.|:(?=//)|(?<=\\#)(?=\d)", re.IGNORECASE)
"""Characters from which GitHub makes a mention, a link or a reference although they are no markup."""


def render(document: Document) -> str:
    """Return the document as Markdown text."""
    parts = [_line(line) for line in document.before]
    if document.title:
        parts.append([f"### {_safe(document.title)}"])
    parts += _blocks(document.filled(whole=True), 4 if document.title else 3)
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def _blocks(blocks: Iterable[Block], level: int) -> Iterator[list[str]]:
    """Yield the lines of each block, with the block's title as a heading of the given level."""
    for block in blocks:
        if title := title_of(block):
            yield [f"{'#' * level} {_safe(title)}"]
        match block:
            case Section() | Fold():
                if isinstance(block, Section) and block.note:
                    yield [f"*{_safe(block.note)}*"]
                yield from _blocks(filled(block.blocks), level + 1)
            case Table():
                yield _table(block.texts())
                yield from ([_safe(note)] for note in block.notes)
            case _:
                yield _plain(block)


def _safe(text: str) -> str:
    """Escape a text as one line of Markdown that shows the text unchanged, also within a table cell."""
    text = shown(text).replace("&", "&amp;")
    for sign in _SIGNS:
        text = text.replace(sign, "\\" + sign)
    # A comment is not shown, but separates the characters of a link.
    return _LINK.sub(r"\g<0><!-- -->", text)


def _line(line: Line) -> list[str]:
    mark = {"": "", "look": "*", "stop": "*", "faint": "*"}.get(line.tone, "**")
    return [f"{mark}{_safe(line.text)}{mark}"]


def _plain(block: Line | Pairs | Points | Code | Chart) -> list[str]:
    match block:
        case Line():
            return _line(block)
        case Pairs():
            return [f"- {f'{_safe(name)}: ' if name else ''}{_safe(text)}" for name, text in block.rows]
        case Points():
            return [f"- {_safe(item)}" for item in block.items]
        case Code():
            # Indented, not fenced, because a line of code could close a fence.
            return [f"    {shown(line)}" for line in block.lines]
        case Chart():
            return [f"*{_safe(block.alt)}*"]


def _table(block: Table) -> list[str]:
    _, heads = block.heads()
    rule = "|".join("---:" if column.kind == "number" else "---" for column in block.columns)
    rows = ([_cell(*pair) for pair in zip(row, block.columns, strict=True)] for row in block.rows)
    return [_row([_safe(head) for head in heads]), f"|{rule}|", *(_row(row) for row in rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell, column: Column) -> str:
    texts: Iterable[str] = (cell.text.strip(), cell.beneath)
    text, beneath = (_safe(shorten(t, LONGEST) if column.kind == "name" else t) for t in texts)
    return f"{text} ({beneath})" if beneath else text
