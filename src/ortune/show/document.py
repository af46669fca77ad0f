"""The content of a verb's result without formatting: a list of blocks that each renderer shows.

Texts, including names from files, are not escaped: each renderer must escape every text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ortune.records import Envelope, Record
from ortune.show.chart import Axis, Chart, Mark

Tone = Literal["", "strong", "good", "bad", "unsure", "look", "stop", "faint"]
"""The emphasis of a text, by its meaning; "strong", "good", "bad" and "unsure" mark the answer."""
Level = Literal["notice", "warning", "error"]
Kind = Literal["label", "text", "number", "name", "list", "chart"]
"""Layout of a column: labels and numbers are never broken, texts are wrapped. In narrow columns, names are shortened in
the middle and lists at the end.

Only HTML pages draw charts, so adjacent cells must contain a chart's numbers.
"""


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence on its own lines; consecutive sentences are shown without an empty line between them.

    Attributes:
        whole: Whether to keep the sentence on one line unless the output is a terminal, so that programs can parse it.
    """

    text: str
    tone: Tone = ""
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """A list of names with a text for each.

    Attributes:
        stacked: Whether each name is on a separate line, because names are long.
    """

    rows: Sequence[tuple[str, str]]
    title: str = ""
    stacked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """A list of sentences.

    Attributes:
        marked: Whether each item begins with a dash, because items are long.
    """

    items: Sequence[str]
    title: str = ""
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        axis: Common scale of a column of charts.
        ends: Labels at the left and the right end of a column of charts.
    """

    head: str
    kind: Kind = "number"
    axis: Axis | None = None
    ends: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell with an optional second line.

    Attributes:
        marks: Drawing, for a cell in a column of charts; ``text`` is its alternative text.
        key: Hue of the cell's subject in the page's charts; "" for none.
        level: Depth of the row in a hierarchy, as an indentation.
        order: Number by which a page sorts the column; None to sort by the text.
        about: Tooltip on a page.
        link: File that the text links to on a page, relative to the page; "" for no link.
    """

    text: str
    beneath: str = ""
    tone: Tone = ""
    marks: tuple[Mark, ...] = ()
    key: str = ""
    level: int = 0
    order: float | None = None
    about: str = ""
    link: str = ""


Row = Sequence[Cell | str]
"""A row as passed to ``table``: a string is a plain cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows with one cell per column; the head is left out if all heads are empty.

    Attributes:
        title: Title above the table, or in place of the first column's head if only that head is empty.
        bars: Length of each row's bar (0 to 1), for renderers that can draw bars; () for no bars.
        notes: Sentences below the table.
        dense: Whether columns are close together, because there are many.
        sortable: Whether a page sorts the table when a head is clicked, and shows only ten rows at first.
        linked: Whether the heads on a page are links that sort the table without a script.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    bars: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    dense: bool = False
    sortable: bool = False
    linked: bool = False

    def heads(self) -> tuple[str, list[str]]:
        """Return the title above the table and the column heads; the title replaces an empty first head."""
        heads = [column.head for column in self.columns]
        return ("", [self.title, *heads[1:]]) if not heads[0] and any(heads) else (self.title, heads)

    def texts(self) -> Table:
        """Return the table without its columns of charts."""
        places = [i for i, column in enumerate(self.columns) if column.kind != "chart"]
        columns = tuple(self.columns[i] for i in places)
        return replace(self, columns=columns, rows=tuple(tuple(row[i] for i in places) for row in self.rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Lines that users copy, so they are never wrapped.

    Attributes:
        commands: Whether each line is a command that can be run next.
        shows_details: The line that shows the same document with its details, left out where these are shown; "" for
            none.
    """

    title: str
    lines: Sequence[str]
    commands: bool = False
    shows_details: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """An annotation of a GitHub job.

    Attributes:
        file: The annotated file as the user typed it; "" for none.
    """

    level: Level
    title: str
    lines: Sequence[str]
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Blocks that a page shows only when unfolded."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Blocks under one title.

    Attributes:
        note: Sentence on how to read the blocks.
        name: HTML id that links on the page refer to; "" for none.
    """

    title: str
    blocks: Sequence[Block]
    note: str = ""
    name: str = ""


Block = Line | Pairs | Points | Table | Code | Chart | Fold | Section


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The head of a page.

    Attributes:
        large: The number shown in large type; "" for none.
        unit: Unit of the large number; without a number, the result in very few words.
        tone: Tone of the large number and its unit.
        values: Triples of hue, name and value, one per side.
        beside: Section next to the large number, with the evidence for it.
        origin: The measured model or application, and the machine.
        basis: How the page's numbers were obtained, shown at its end.
    """

    large: str = ""
    unit: str = ""
    tone: Tone = ""
    values: Sequence[tuple[str, str, str]] = ()
    beside: Section | None = None
    origin: str = ""
    basis: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The result of a verb as blocks to be shown.

    Attributes:
        title: Verb and subject. Only pages show the title, because a terminal already shows the command.
        blocks: Headline, table, limits of the claim, code, next commands; empty blocks are left out.
        support: Further blocks, shown below the answer on a page and on request at a terminal.
        annotations: Annotations for the answer and for each finding.
        before: Lines above everything else, such as alerts.
        dense: Whether empty lines are left out, so that the document fits on a terminal's screen.
        head: Head of a page; None to make a head from the first lines of ``blocks``.
    """

    title: str = ""
    blocks: Sequence[Block]
    support: Sequence[Block] = ()
    annotations: Sequence[Annotation] = ()
    before: Sequence[Line] = ()
    dense: bool = False
    head: Head | None = None

    def filled(self, *, whole: bool) -> list[Block]:
        """Return the blocks that are not empty, followed by the supporting blocks if ``whole``."""
        if not whole:
            return filled(self.blocks)
        return filled(map(_detailed, [*self.blocks, *self.support]))

    def with_below_lines(self, *blocks: Block) -> Document:
        """Return the document with further blocks below its first lines."""
        n = len(first_lines(self.blocks))
        return replace(self, blocks=[*self.blocks[:n], *blocks, *self.blocks[n:]])


def first_lines(blocks: Sequence[Block]) -> list[Line]:
    """Return the lines with which the blocks begin."""
    lines = []
    for block in blocks:
        if not isinstance(block, Line):
            break
        lines.append(block)
    return lines


def filled(blocks: Iterable[Block]) -> list[Block]:
    """Return the blocks that are not empty."""
    return [block for block in blocks if _holds(block)]


def _detailed(block: Block) -> Block:
    """Return the block without the command that shows the details."""
    if not isinstance(block, Code) or not block.shows_details:
        return block
    return replace(block, lines=[line for line in block.lines if line != block.shows_details])


def _holds(block: Block) -> bool:
    match block:
        case Line():
            return bool(block.text)
        case Points():
            return bool(block.items)
        case Code():
            return bool(block.lines)
        case Chart():
            return bool(block.marks)
        case Fold() | Section():
            return any(map(_holds, block.blocks))
        case _:
            return bool(block.rows)


def title_of(block: Block) -> str:
    """Return the title of a block; "" if it has none."""
    match block:
        case Line():
            return ""
        case Table():
            return block.heads()[0]
        case _:
            return block.title


def table(
    columns: Iterable[Column],
    rows: Iterable[Row],
    *,
    title: str = "",
    bars: Iterable[float] = (),
    notes: Iterable[str] = (),
    dense: bool = False,
    sortable: bool = False,
    linked: bool = False,
) -> Table:
    """Make a ``Table``; its rows may have strings for plain cells."""
    return Table(
        columns=tuple(columns),
        rows=tuple(tuple(c if isinstance(c, Cell) else Cell(c) for c in row) for row in rows),
        title=title,
        bars=tuple(bars),
        notes=tuple(notes),
        dense=dense,
        sortable=sortable,
        linked=linked,
    )


INTERRUPTED = "stopped early; partial results"


def stopped(envelope: Envelope[Record]) -> list[Line]:
    """Return a line that says that the measurement was interrupted; empty if it was not."""
    return [Line(INTERRUPTED, "look")] if envelope.status == "interrupted" else []
