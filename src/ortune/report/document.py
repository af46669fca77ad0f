"""What a verb says before it has a look: blocks in their order, made once and shown by each renderer.

Texts are as they came, names from files included: a renderer alone escapes, all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ortune.records import Envelope, Record

Tone = Literal["", "strong", "good", "bad", "unsure", "look", "stop", "faint"]
"""What a text is to its reader: the first four of them, strong to unsure, are answers."""
Level = Literal["notice", "warning", "error"]
Kind = Literal["label", "text", "number", "name"]
"""How a column behaves: labels and numbers stay whole, texts fold, names lose their middle where room is short."""


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
        marked: They are long, so that a dash tells where one begins.
    """

    items: Sequence[str]
    title: str = ""
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    head: str
    kind: Kind = "number"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell with what stands beneath it, "" for nothing."""

    text: str
    beneath: str = ""
    tone: Tone = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of as many cells as there are columns; one whose columns have no head is shown without a head.

    Attributes:
        title: In the place of the first column's head where that has none and others do.
        bars: A share (0 to 1) for each row, drawn where the renderer can; () for none.
        notes: What is said beneath.
        dense: Many columns: less room between them.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    bars: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    dense: bool = False

    def heads(self) -> tuple[str, list[str]]:
        """The title that stands above, and the heads; all heads are "" for a table without."""
        heads = [column.head for column in self.columns]
        return ("", [self.title, *heads[1:]]) if not heads[0] and any(heads) else (self.title, heads)


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
    """What a job on GitHub is told.

    Attributes:
        file: That it is shown beside, as it was typed; "" for what is about no file.
    """

    level: Level
    title: str
    lines: Sequence[str]
    file: str = ""


Block = Line | Pairs | Points | Table | Code


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One answer.

    Attributes:
        title: Verb and subject, for a page; at a terminal the command says it.
        blocks: The answer first: headline, table, what limits the claim, code, next commands; empty ones are left out.
        support: All else that is known, which a terminal shows where it is asked for and a page below the answer.
        annotations: Of the answer and each finding.
        before: Said above all else: what a reader must know of the whole.
        dense: A page that must fit a terminal: no empty lines.
    """

    title: str = ""
    blocks: Sequence[Block]
    support: Sequence[Block] = ()
    annotations: Sequence[Annotation] = ()
    before: Sequence[Line] = ()
    dense: bool = False

    def filled(self, *, whole: bool) -> list[Block]:
        """The blocks that hold anything, with those that support the answer where the ``whole`` is asked for."""
        blocks = [*self.blocks, *(self.support if whole else ())]
        return [block for block in blocks if _content(block)]


def _content(block: Block) -> str | Sequence[object]:
    match block:
        case Line():
            return block.text
        case Points():
            return block.items
        case Code():
            return block.lines
        case _:
            return block.rows


def table(
    columns: Iterable[Column],
    rows: Iterable[Sequence[Cell | str]],
    *,
    title: str = "",
    bars: Iterable[float] = (),
    notes: Iterable[str] = (),
    dense: bool = False,
) -> Table:
    """A table whose plain cells are given as their texts; its fields are those of ``Table``."""
    return Table(
        columns=tuple(columns),
        rows=tuple(tuple(c if isinstance(c, Cell) else Cell(c) for c in row) for row in rows),
        title=title,
        bars=tuple(bars),
        notes=tuple(notes),
        dense=dense,
    )


INTERRUPTED = "stopped early; this is what was measured by then"


def stopped(envelope: Envelope[Record]) -> list[Line]:
    """That a measurement was interrupted, where it was."""
    return [Line(INTERRUPTED, "look")] if envelope.status == "interrupted" else []
