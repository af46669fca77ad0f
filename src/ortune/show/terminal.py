"""A document for a terminal; all texts are escaped by ``_text`` or ``_code``."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

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
    Tone,
    filled,
)
from ortune.show.escape import shown
from ortune.show.numbers import shorten, shorten_end, shorten_list

STYLES: dict[Tone, str] = {
    "": "",
    "strong": "bold",
    "good": "bold green",
    "bad": "bold red",
    "unsure": "bold yellow",
    "look": "yellow",
    "stop": "red",
    "faint": "dim",
}
BAR = 24
"""Width of a full bar in characters."""
NARROWEST = 20
"""Minimum width of a name in characters."""
PLAIN_WIDTH = 100
"""Width in characters of logs, files and notebooks."""


def render(document: Document, *, whole: bool = False) -> RenderableType:
    """Return the document as a rich renderable, with its supporting blocks if ``whole``.

    The renderable adapts to the width of its console, except for lines of code: the terminal wraps these itself (print
    with ``crop=False``), because lines wrapped by rich could not be pasted.
    """
    parts: list[RenderableType] = [_text(line.text, line.tone) for line in document.before]
    if parts:
        parts.append(Text())
    parts += _blocks(document.filled(whole=whole), dense=document.dense)
    return Group(*parts)


def _blocks(blocks: Iterable[Block], *, dense: bool = False) -> Iterator[RenderableType]:
    """Yield the renderables of the blocks, with an empty line between two blocks.

    There is no empty line between two sentences, and none at all if ``dense``.
    """
    last: Block | None = None
    for block in blocks:
        together = isinstance(last, Line) and isinstance(block, Line)
        if last is not None and not together and not dense:
            yield Text()
        yield from _block(block)
        last = block


def plain(document: Document, *, whole: bool = False) -> str:
    """Return the document as text without colours, for files and logs."""
    shown = io.StringIO()
    console = Console(file=shown, highlight=False, width=PLAIN_WIDTH, force_terminal=False)
    console.print(render(document, whole=whole), crop=False)
    return "".join(f"{line.rstrip()}\n" for line in shown.getvalue().splitlines())


def html(document: Document) -> str:
    """Return the document as HTML that looks like the terminal and loads no other file."""
    console = Console(
        file=io.StringIO(), highlight=False, width=PLAIN_WIDTH, record=True, force_terminal=True
    )
    console.print(render(document), crop=False)
    return console.export_html(inline_styles=True, code_format='<pre style="line-height:normal">{code}</pre>')


def _text(text: str, tone: Tone = "") -> Text:
    # Text does not interpret markup, and ``shown`` escapes characters that are not printable.
    return Text(shown(text), style=STYLES[tone], overflow="fold")


def _code(line: str, tone: Tone) -> Text:
    """Return a line that is neither indented nor wrapped, so that it can be pasted."""
    return Text(shown(line), style=STYLES[tone], no_wrap=True, overflow="ignore")


class _Whole:
    """A line that is wrapped only on a terminal."""

    def __init__(self, line: Line) -> None:
        self.line = line

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield (_text if options.is_terminal else _code)(self.line.text, self.line.tone)


def _block(block: Block) -> Iterator[RenderableType]:
    """Yield the renderables of a block; the content below a title is indented."""
    match block:
        case Line():
            yield _Whole(block) if block.whole else _text(block.text, block.tone)
        case Code():
            if block.title:
                yield _text(f"{block.title}:", "faint")
            yield from (_code(line, "strong" if block.commands else "") for line in block.lines)
        case Pairs():
            yield from _titled(block.title, _stacked(block) if block.stacked else [_pairs(block)])
        case Points(marked=True):
            yield from _titled(block.title, [_grid(("-", _text(item)) for item in block.items)])
        case Points():
            yield from _titled(block.title, [_text(item) for item in block.items], indent=2)
        case Table():
            yield from _titled(block.heads()[0], [_Fitting(block.texts())])
            yield from (Padding(_text(note, "faint"), (0, 0, 0, 2)) for note in block.notes)
        case Chart():
            yield from _titled(block.title, [_text(block.alt, "faint")])
        case Fold() | Section():
            # Not indented, because it may contain code.
            yield _text(block.title, "strong")
            if isinstance(block, Section) and block.note:
                yield _text(block.note, "faint")
            yield from _blocks(filled(block.blocks))


def _titled(title: str, parts: Iterable[RenderableType], indent: int = 0) -> Iterator[RenderableType]:
    if title:
        yield _text(title, "strong")
    # Padding instead of leading blanks, so that wrapped lines are indented too.
    yield from (Padding(part, (0, 0, 0, 2 if title else indent)) for part in parts)


def _pairs(block: Pairs) -> RenderableType:
    return _grid((name, _text(text, "look" if name == "finding" else "")) for name, text in block.rows)


def _stacked(block: Pairs) -> Iterator[RenderableType]:
    for name, text in block.rows:
        if name:
            yield _text(name, "strong")
        yield Padding(_text(text), (0, 0, 0, 4))


def _grid(rows: Iterable[tuple[str, Text]]) -> Grid:
    """Return rows of a name and a text in two columns, so that the lines of a wrapped text are aligned."""
    grid = Grid.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in rows:
        grid.add_row(_text(name, "faint"), text)
    return grid


class _Fitting:
    """A table whose name columns get the width that the other columns leave."""

    def __init__(self, block: Table) -> None:
        self.block = block

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        block, gap = self.block, 2 if self.block.dense else 3
        _, heads = block.heads()
        words = [_text(head) for head in heads]
        if self._squeezed(heads, gap, options.max_width):
            gap = 2
            words = [Text("\n").join(map(_text, self._folded(i, head))) for i, head in enumerate(heads)]
        room = self._room(heads, gap, options.max_width)
        bars_width = BAR + gap if block.bars else 0
        widths = self._wrapped(words, room, options.max_width - gap * (len(heads) - 1) - bars_width)
        grid = Grid(box=None, pad_edge=False, padding=(0, gap, 0, 0), show_header=any(heads))
        for i, (head, column) in enumerate(zip(words, block.columns, strict=True)):
            grid.add_column(
                head,
                justify="right" if column.kind == "number" else "left",
                overflow="fold",
                width=widths[i] if column.kind == "text" else None,
                no_wrap=column.kind != "text",
            )
        if block.bars:
            grid.add_column(no_wrap=True)
        for index, row in enumerate(block.rows):
            cells = [_cell(cell, column, room) for cell, column in zip(row, block.columns, strict=True)]
            bars = [Text("█" * round(BAR * block.bars[index]), STYLES["faint"])] if block.bars else []
            grid.add_row(*cells, *bars)
        yield grid

    def _room(self, heads: list[str], gap: int, width: int) -> int:
        """Return the width for name columns, the only columns (apart from lists) that are cut."""
        others = [i for i, column in enumerate(self.block.columns) if column.kind not in ("name", "list")]
        return max(self._least(), width - sum(gap + self._width(i, heads[i]) for i in others))

    def _least(self) -> int:
        """Return the minimum width of a name column: the longest first item of a list, at least ``NARROWEST``."""
        lists = [i for i, column in enumerate(self.block.columns) if column.kind == "list"]
        cut = [shorten_list(shown(row[i].text), 0) for i in lists for row in self.block.rows]
        return max([NARROWEST, *map(cell_len, cut)])

    def _wrapped(self, heads: list[Text], room: int, width: int) -> list[int]:
        """Return the widths of the columns; texts are wrapped until the widths add up to at most ``width``.

        A word is broken only if the longest words of all columns together do not fit.
        """
        kinds = [column.kind for column in self.block.columns]
        widths = [
            max([*map(cell_len, head.plain.split("\n")), self._width(i, "")]) for i, head in enumerate(heads)
        ]
        widths = [
            min(w, room) if kind in ("name", "list") else w for w, kind in zip(widths, kinds, strict=True)
        ]
        texts = [i for i, kind in enumerate(kinds) if kind == "text"]
        for least in (
            [self._longest_word(i) if i in texts else 0 for i in range(len(kinds))],
            [1] * len(kinds),
        ):
            while sum(widths) > width and (wide := [i for i in texts if widths[i] > least[i]]):
                widths[max(wide, key=widths.__getitem__)] -= 1
        return widths

    def _longest_word(self, column: int) -> int:
        """Return the width of a column's longest word."""
        words = (word for row in self.block.rows for word in shown(row[column].text).split())
        return max(map(cell_len, words), default=0)

    def _squeezed(self, heads: list[str], gap: int, width: int) -> bool:
        """Return whether the columns that are never wrapped leave too little width for the columns with texts."""
        columns = [(self._width(i, heads[i]), column.kind) for i, column in enumerate(self.block.columns)]
        texts = [longest for longest, kind in columns if kind == "text"]
        left = width - sum(gap + longest for longest, kind in columns if kind not in ("text", "name", "list"))
        return left < sum(min(NARROWEST, longest) for longest in texts)

    def _folded(self, column: int, head: str) -> list[str]:
        """Return a column's head as lines, wrapped to the width of the column's cells."""
        lines: list[str] = []
        for word in head.replace(" %", "\N{NO-BREAK SPACE}%").split(" "):
            if lines and cell_len(f"{lines[-1]} {word}") <= self._width(column, ""):
                lines[-1] += f" {word}"
            else:
                lines.append(word)
        return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]

    def _width(self, column: int, head: str) -> int:
        """Return the width of a column, including its head."""
        cells = [text for row in self.block.rows for text in (row[column].text, row[column].beneath)]
        return max(cell_len(shown(text)) for text in [head, *cells])


def _cell(cell: Cell, column: Column, room: int) -> Text:
    name, cut = column.kind in ("name", "list"), shorten_list if column.kind == "list" else shorten
    tone: Tone = cell.tone or ("faint" if column.kind == "label" else "")
    text = _text("  " * cell.level + (_fitted(cell.text, room, cut) if name else cell.text), tone)
    if cell.beneath:
        beneath = f"  {_fitted(cell.beneath, room - 2, shorten_end)}" if name else cell.beneath
        text = Text.assemble(text, "\n", _text(beneath, "faint"), overflow="fold")
    return text


def _fitted(text: str, room: int, cut: Callable[[str, int], str] = shorten) -> str:
    """Shorten a text to ``room`` terminal cells; wide characters take two cells."""
    text = shown(text)
    length = room
    while cell_len(fitted := cut(text, length)) > room and length > 4:
        length -= 1
    return fitted
