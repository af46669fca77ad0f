"""What a verb says before it has a look: blocks in their order, made once and shown by each renderer.

Texts are as they came, names from files included: a renderer alone escapes, all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ortune.records import Envelope, Record
from ortune.show.chart import Axis, Chart, Mark

Tone = Literal["", "strong", "good", "bad", "unsure", "look", "stop", "faint"]
"""What a text is to its reader: the first four of them, strong to unsure, are answers."""
Level = Literal["notice", "warning", "error"]
Kind = Literal["label", "text", "number", "name", "list", "chart"]
"""How a column behaves: labels and numbers stay whole, texts fold; where room is short, names lose their middle, and
lists their last items.

A chart is drawn on a page only: adjacent cells contain its numbers.
"""


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence on lines of its own; those that follow each other stand together.

    Attributes:
        whole: One line where no terminal shows it, for whoever reads the text line by line.
    """

    text: str
    tone: Tone = ""
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Names, and what is said of each.

    Attributes:
        stacked: The name is long, and has a line of its own.
    """

    rows: Sequence[tuple[str, str]]
    title: str = ""
    stacked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """A list of sentences.

    Attributes:
        marked: Whether each begins with a dash, because they are long.
    """

    items: Sequence[str]
    title: str = ""
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        axis: Of a column of charts, the scale that they share.
        ends: Of such a column, what lies to the left and to the right.
    """

    head: str
    kind: Kind = "number"
    axis: Axis | None = None
    ends: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell with a second line below it, "" for none.

    Attributes:
        marks: What is drawn in a column of charts; the text is the drawing's alternative.
        key: The hue by which a chart draws what the cell names.
        level: How deep it lies in a hierarchy.
        order: What a page sorts the column by, where that is a number.
        about: Tooltip of a page.
        link: Where a page leads from the text: a file, relative to the page; "" for nowhere.
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
"""A row of a table as it is given: a plain cell as its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of as many cells as there are columns; one whose columns have no head is shown without a head.

    Attributes:
        title: In the place of the first column's head where that has none and others do.
        bars: A share (0 to 1) for each row, drawn where the renderer can; () for none.
        notes: What is said beneath.
        dense: Many columns: less room between them.
        sortable: A page sorts it by the head that is clicked, and shows ten rows at first.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    bars: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    dense: bool = False
    sortable: bool = False

    def heads(self) -> tuple[str, list[str]]:
        """Return the title above the table, and the heads; all heads are "" for a table without heads."""
        heads = [column.head for column in self.columns]
        return ("", [self.title, *heads[1:]]) if not heads[0] and any(heads) else (self.title, heads)

    def texts(self) -> Table:
        """Return the table without its charts."""
        places = [i for i, column in enumerate(self.columns) if column.kind != "chart"]
        columns = tuple(self.columns[i] for i in places)
        return replace(self, columns=columns, rows=tuple(tuple(row[i] for i in places) for row in self.rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Lines to copy: none is ever folded.

    Attributes:
        commands: They are commands that may be run next, each on its own.
    """

    title: str
    lines: Sequence[str]
    commands: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """An annotation of a job on GitHub.

    Attributes:
        file: The file that it annotates, as it was typed; "" for none.
    """

    level: Level
    title: str
    lines: Sequence[str]
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Blocks that a page shows when they are unfolded."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Blocks under one title.

    Attributes:
        note: How to read them.
        name: What a link on the page leads to; "" for a section that has none.
    """

    title: str
    blocks: Sequence[Block]
    note: str = ""
    name: str = ""


Block = Line | Pairs | Points | Table | Code | Chart | Fold | Section


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The head of a page, apart from the answer itself.

    Attributes:
        large: A figure, "" where there is none to name.
        unit: What it is of; without a figure the answer in very few words.
        tone: Of both.
        values: Hue, name and value of each side.
        beside: What the answer rests on.
        origin: Of the subject: what was measured, and where.
        basis: What all figures rest on: the page's last lines.
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
    """One answer.

    Attributes:
        title: Verb and subject, for a page; at a terminal the command says it.
        blocks: The answer first: headline, table, what limits the claim, code, next commands; empty ones are left out.
        support: All other blocks, shown by a terminal on request and by a page below the answer.
        annotations: Of the answer and each finding.
        before: Said above all else: what a reader must know of the whole.
        dense: A page that must fit a terminal: no empty lines.
        head: What a page shows large; None for the answer's own lines alone.
    """

    title: str = ""
    blocks: Sequence[Block]
    support: Sequence[Block] = ()
    annotations: Sequence[Annotation] = ()
    before: Sequence[Line] = ()
    dense: bool = False
    head: Head | None = None

    def filled(self, *, whole: bool) -> list[Block]:
        """Return the blocks that are not empty, with the supporting ones if ``whole``."""
        return filled([*self.blocks, *(self.support if whole else ())])


def filled(blocks: Iterable[Block]) -> list[Block]:
    """Return the blocks that hold anything."""
    return [block for block in blocks if _holds(block)]


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
    """Return the title of a block, "" for none."""
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
) -> Table:
    """Return a table; its fields are those of ``Table``."""
    return Table(
        columns=tuple(columns),
        rows=tuple(tuple(c if isinstance(c, Cell) else Cell(c) for c in row) for row in rows),
        title=title,
        bars=tuple(bars),
        notes=tuple(notes),
        dense=dense,
        sortable=sortable,
    )


INTERRUPTED = "stopped early; partial results"


def stopped(envelope: Envelope[Record]) -> list[Line]:
    """Return the sentence that a measurement was interrupted, where it was."""
    return [Line(INTERRUPTED, "look")] if envelope.status == "interrupted" else []
