"""A profile, for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from ortune.records import Envelope, ProfileDifference, ProfileResult
from ortune.report import difference_words, escape
from ortune.report import profile_words as words
from ortune.report.numbers import shorten
from ortune.report.profile_tables import Listing

NARROWEST = 20
LONGEST = 120
GAP = 2
BAR = 24


def terminal(envelope: Envelope) -> RenderableType:
    """For people at a terminal: the sentence first, then where the time goes."""
    result = _result(envelope)
    parts: list[RenderableType] = []
    if result.against is not None:
        parts += [difference_terminal(result.against), Text(), _text(words.subject(result), "bold")]
    parts.append(_text(words.run_sentence(result), "" if result.against else "bold"))
    if result.headroom is not None and result.headroom.sentence:
        parts.append(_text(result.headroom.sentence, "bold green"))
    rows = words.category_rows(result)
    if rows:
        parts += [Text(), _categories(result, rows)]
    for listing in (words.operators(result), words.nodes(result), words.layers(result)):
        if listing.rows:
            parts += [Text(), _Fitting(listing)]
    facts = [("runs", words.variance(result)), ("memory", words.memory_line(result))]
    if any(text for _, text in facts):
        parts += [Text(), _grid([(name, text) for name, text in facts if text])]
    found = words.findings(result)
    if found:
        parts += [Text(), _text("what stands out", "bold"), _grid([("-", text) for text in found])]
    under = [*words.notes(result), *(("written", f"{kind}: {path}") for kind, path in result.exports.items())]
    if under:
        parts += [Text(), _grid(under)]
    return Group(*parts)


def difference_terminal(found: ProfileDifference) -> RenderableType:
    """Where the time went, B minus A."""
    parts: list[RenderableType] = [_text(difference_words.headline(found), "bold")]
    for listing in difference_words.tables(found):
        parts += [Text(), _Fitting(listing)]
    parts += [Text(), _grid(difference_words.notes(found))]
    return Group(*parts)


def _text(text: str, style: str = "") -> Text:
    # A Text never reads markup; what is not printable is written out.
    return Text(escape.visible(text), style=style, overflow="fold")


def _grid(rows: Sequence[tuple[str, str]]) -> Table:
    """Two columns, so that a sentence that is folded stays under itself."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for name, text in rows:
        grid.add_row(f"  {name}", _text(text))
    return grid


def _categories(result: ProfileResult, rows: Sequence[tuple[str | None, str, str, str]]) -> RenderableType:
    """Categories with a bar each; the last row is the sum."""
    unit = words.category_unit(result)
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column(_text("where the time goes", "bold"), no_wrap=True)
    for head in (unit.name, "%"):
        table.add_column(_text(head, "dim"), justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for name, text, time, part in rows:
        style = "bold" if name is None else "yellow" if name == "unexplained" and abs(float(part)) > 2 else ""
        length = round(BAR * max(0.0, min(100.0, float(part))) / 100) if name is not None else 0
        table.add_row(
            _text(f"  {text}", style), _text(time, style), _text(part, style), Text("█" * length, "dim")
        )
    absent = words.absent_categories(result)
    return Group(table, _text(f"  {absent}", "dim")) if absent else table


class _Fitting:
    """A table whose first column takes what the others leave; a name that is too long loses its middle."""

    def __init__(self, listing: Listing) -> None:
        self.listing = listing

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        heads, rows = self.listing.heads, self.listing.rows
        others = sum(
            GAP + max(cell_len(escape.visible(text)) for text in (heads[i + 1], *(r.cells[i] for r in rows)))
            for i in range(len(heads) - 1)
        )
        room = max(NARROWEST, options.max_width - others - 2)
        yield _text(self.listing.title, "bold")
        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
        table.add_column(_text(f"  {heads[0]}", "dim"), overflow="fold", no_wrap=True)
        for head in heads[1:]:
            table.add_column(_text(head, "dim"), justify="right", no_wrap=True)
        for row in rows:
            style = "dim" if row.faint else ""
            name = _text(f"  {_fitted(row.name, room)}", style)
            if row.beneath:
                name.append(f"\n    {_fitted(row.beneath, room - 2)}", style="dim")
            table.add_row(name, *(_text(cell, style) for cell in row.cells))
        yield table


def _fitted(text: str, room: int) -> str:
    """The text in that many cells; wide characters count two."""
    text = escape.visible(text)
    length = room
    while cell_len(shown := shorten(text, length)) > room and length > 4:
        length -= 1
    return shown


def markdown(envelope: Envelope) -> str:
    """The same as Markdown."""
    result = _result(envelope)
    lines = [f"### ortune profile: {escape.markdown(words.subject(result))}", ""]
    if result.against is not None:
        lines += [difference_markdown(result.against), "The run of A:", ""]
    lines += [f"**{escape.markdown(words.run_sentence(result))}**", ""]
    if result.headroom is not None and result.headroom.sentence:
        lines += [escape.markdown(result.headroom.sentence), ""]
    rows = words.category_rows(result)
    if rows:
        unit = words.category_unit(result)
        lines += [f"| where the time goes | {unit.name} | % |", "|---|---:|---:|"]
        lines += [f"| {escape.markdown(text)} | {time} | {part} |" for _, text, time, part in rows]
        lines.append("")
    for listing in (words.operators(result), words.nodes(result), words.layers(result)):
        lines += _md_listing(listing)
    facts = [("runs", words.variance(result)), ("memory", words.memory_line(result))]
    facts += [("finding", text) for text in words.findings(result)]
    facts += words.notes(result)
    facts += [("written", f"{kind}: {path}") for kind, path in result.exports.items()]
    lines += [f"- {name}: {escape.markdown(text)}" for name, text in facts if text]
    return "\n".join(lines).rstrip("\n") + "\n"


def difference_markdown(found: ProfileDifference) -> str:
    """Where the time went, B minus A."""
    lines = [f"**{escape.markdown(difference_words.headline(found))}**", ""]
    for listing in difference_words.tables(found):
        lines += _md_listing(listing)
    lines += [f"- {name}: {escape.markdown(text)}" for name, text in difference_words.notes(found)]
    return "\n".join(lines) + "\n"


def _md_listing(listing: Listing) -> list[str]:
    if not listing.rows:
        return []
    lines = [f"{escape.markdown(listing.title)}:", "", "| " + " | ".join(listing.heads) + " |"]
    lines.append("|---|" + "---:|" * (len(listing.heads) - 1))
    for row in listing.rows:
        name = escape.markdown(shorten(row.name, LONGEST))
        name += f" ({escape.markdown(shorten(row.beneath, LONGEST))})" if row.beneath else ""
        lines.append("| " + " | ".join([name, *(escape.markdown(cell) for cell in row.cells)]) + " |")
    return [*lines, ""]


def _result(envelope: Envelope) -> ProfileResult:
    assert isinstance(envelope.result, ProfileResult)
    return envelope.result
