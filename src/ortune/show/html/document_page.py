"""A document as a page: a large answer, then the blocks in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from ortune.records import Envelope
from ortune.show.document import Block, Document, Head, Line, Section, Table, filled, first_lines, title_of
from ortune.show.html import frame, svg
from ortune.show.machine_words import origin
from ortune.show.stored_kind import stored_kind

PRODUCTS = {
    "look": "first look",
    "compare": "comparison",
    "history": "releases compared",
    "lock": "snapshot",
    "tune": "tuning report",
}
"""Maps verbs to the names of their pages; the pages of other verbs have the verb's name."""
ANSWERS = ("strong", "good", "bad", "unsure")
BASIS = (
    "Intervals are confidence intervals over fresh processes, at 95 % unless a level is named; values without one are "
    "single observations."
)
UNTIMED = frozenset({"bisect", "check", "explain", "lock", "partition", "rewrite", "runtime"})
"""Verbs without timings, so that none of their values has an interval."""
FIRST = 10
"""Number of rows of a sortable table that are shown at first; the style sheet contains the same number."""


def render(document: Document, verb: str, envelope: Envelope[Any] | None = None, *, stored: str = "") -> str:
    """Return the page as one HTML document that loads no other file.

    Args:
        document: The document.
        verb: The verb that made the document.
        envelope: The envelope that the document was made from; None if there is none.
        stored: Line that introduces a stored session; "" for a new one.
    """
    head = document.head or Head()
    blocks = document.filled(whole=True)
    answers = first_lines(blocks)
    subject = document.title.partition(": ")[2] or _model(envelope)
    answer = _answer(answers, verb, envelope) or subject or document.title
    product = PRODUCTS.get(verb, verb)
    session: str = getattr(envelope.result, "session", "") if envelope else ""
    return frame.page(
        "document.html.j2",
        product=product,
        subject=subject,
        origin=head.origin or origin(envelope.host if envelope else None, ""),
        title=f"{head.large} {head.unit}".strip() or product,
        basis=head.basis or ("Nothing was timed." if verb in UNTIMED else BASIS),
        ortune=envelope.ortune if envelope else "",
        session=session,
        date=f"{session[:4]}-{session[4:6]}-{session[6:8]}" if session[:8].isdigit() else "",
        styles=["style.css"],
        stored=stored,
        before=document.before,
        head=head,
        answer=answer,
        answers=[line for line in answers if line.text != answer],
        sections=_sections(
            blocks[len(answers) :], model=envelope.model.path if envelope and envelope.model else ""
        ),
        FIRST=FIRST,
        kind_of=lambda block: type(block).__name__,
        table_class=_table_class,
        orders=_orders,
        chart=svg.chart,
        axis=svg.head,
        drawing=svg.cell,
        bar=svg.bar,
    )


def _answer(answers: Sequence[Line], verb: str, envelope: Envelope[Any] | None) -> str:
    """Return the page's heading: the first line with an answer's tone, or else the headline of the stored result.

    "" if there is neither.
    """
    spoken = next((line.text for line in answers if line.tone in ANSWERS), "")
    kind = stored_kind(verb)
    if spoken or kind is None or envelope is None or not isinstance(envelope.result, kind.result):
        return spoken
    return kind.headline(envelope.result)


def _model(envelope: Envelope[Any] | None) -> str:
    """Return the model's file name; for a file of a git revision, the whole path with the revision after "@"."""
    path = envelope.model.path if envelope is not None and envelope.model is not None else ""
    return path if "@" in path else PurePath(path).name


def _sections(blocks: Sequence[Block], model: str) -> list[Section]:
    """Group the blocks into sections by title.

    A block without a title, or with the model's path as title, joins the previous section.
    """
    parts: list[Section] = []
    for block in blocks:
        if isinstance(block, Section):
            parts.append(replace(block, blocks=filled(block.blocks)))
            continue
        title = title_of(block)
        untitled = replace(block, title="") if title and not isinstance(block, Line) else block
        title = "" if title == model else title
        if title or not parts or parts[-1].name:
            parts.append(Section(title=title[:1].upper() + title[1:], blocks=[]))
        parts[-1] = replace(parts[-1], blocks=[*parts[-1].blocks, untitled])
    return parts


def _table_class(block: Table) -> str:
    """Return the table's CSS classes, which the style sheet and the script use."""
    kinds = [column.kind for column in block.columns]
    # On a phone, a table with sentences has no room for columns.
    sentences = ["texts"] if "text" in kinds[1:] else []
    return " ".join(
        [
            *(["charts"] if "chart" in kinds else []),
            *sentences,
            *(["sortable"] if block.sortable else []),
            *(["linked"] if block.linked else []),
        ]
    )


def _orders(block: Table) -> list[str]:
    """Return the inline style of each row of a linked table: its position by each column, ascending and descending.

    Rows without a value are last in both directions.
    """
    places: list[list[str]] = [[] for _ in block.rows]
    for number in range(len(block.columns)):
        cells = [row[number] for row in block.rows]
        numbers = any(cell.order is not None for cell in cells)
        known = [i for i, cell in enumerate(cells) if cell.order is not None or not numbers]
        missing = [i for i in range(len(cells)) if i not in set(known)]
        known.sort(key=lambda i: (cells[i].order or 0.0, cells[i].text))
        for way, ordered in (("u", known), ("d", known[::-1])):
            for place, i in enumerate([*ordered, *missing]):
                places[i].append(f"--{way}{number + 1}: {place}")
    return ["; ".join(each) for each in places]
