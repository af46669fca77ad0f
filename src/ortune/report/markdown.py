"""A document as Markdown, for a pull request or a page. Every text passes ``_safe``, which makes names harmless."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ortune.report.document import Block, Cell, Code, Column, Document, Line, Pairs, Points, Table
from ortune.report.escape import shown
from ortune.report.numbers import shorten

LONGEST = 120
"""Characters of a name in a table."""
_SIGNS = "\\`*_{}[]<>|#~$"
_LINK = re.compile(r"(?<!\w)@(?=\w)|(?<=www)\.|:(?=//)|(?<=\\#)(?=\d)", re.IGNORECASE)
"""What GitHub makes a mention, a link or a reference of, although nothing marks it as one."""


def render(document: Document) -> str:
    """The document as Markdown text."""
    parts = [_line(line) for line in document.before]
    if document.title:
        parts.append([f"### {_safe(document.title)}"])
    for block in document.filled(whole=True):
        title = (
            "" if isinstance(block, Line) else block.heads()[0] if isinstance(block, Table) else block.title
        )
        if title:
            parts.append([f"{'####' if document.title else '###'} {_safe(title)}"])
        parts.append(_block(block))
        if isinstance(block, Table):
            parts += [[_safe(note)] for note in block.notes]
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def _safe(text: str) -> str:
    """One line that shows the text as it is; safe inside a table cell too."""
    text = shown(text).replace("&", "&amp;")
    for sign in _SIGNS:
        text = text.replace(sign, "\\" + sign)
    return _LINK.sub(r"\g<0><!-- -->", text)


def _line(line: Line) -> list[str]:
    mark = {"": "", "look": "*", "stop": "*", "faint": "*"}.get(line.tone, "**")
    return [f"{mark}{_safe(line.text)}{mark}"]


def _block(block: Block) -> list[str]:
    match block:
        case Line():
            return _line(block)
        case Pairs():
            return [f"- {f'{_safe(name)}: ' if name else ''}{_safe(text)}" for name, text in block.rows]
        case Points():
            return [f"- {_safe(item)}" for item in block.items]
        case Code():
            # Indented, not fenced: no line of the code can close a fence.
            return [f"    {shown(line)}" for line in block.lines]
        case Table():
            return _table(block)


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
