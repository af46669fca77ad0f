"""A first look, for the terminal and as Markdown."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ortune.records import Envelope, LookResult
from ortune.report import escape
from ortune.report import look_words as words

NAME_LENGTH = 60


def terminal(envelope: Envelope) -> RenderableType:
    """For people at a terminal."""
    result = _result(envelope)
    parts: list[RenderableType] = [_text(envelope.model.path if envelope.model else "", "bold")]
    parts.append(_grid([*words.about(result), *words.timing(result)]))
    title, rows = words.profile_title(result), words.operator_rows(result)
    if rows:
        parts += [_text(title, "bold"), _operators(rows)]
    seen = words.facts(result)
    if seen:
        parts.append(_text("what stands out", "bold"))
        parts.append(_grid([("-", fact) for fact in seen]))
    if result.left_out:
        parts.append(_text(words.left_out(result), "yellow"))
    if result.next_commands:
        parts.append(
            _grid([("next" if i == 0 else "", c) for i, c in enumerate(result.next_commands)], "bold")
        )
    return Group(*parts)


def _text(text: str, style: str = "") -> Text:
    # A Text never reads markup; what is not printable is written out.
    return Text(escape.visible(text), style=style, overflow="fold")


def _grid(rows: list[tuple[str, str]], style: str = "") -> Table:
    """Two columns, so that a sentence that is folded stays under itself."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for name, text in rows:
        grid.add_row(f"  {name}", _text(text, style))
    return grid


def _operators(rows: list[tuple[str, str, str, str]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 3, 0, 0))
    table.add_column(overflow="fold")
    for _ in range(3):
        table.add_column(justify="right", no_wrap=True)
    for operator, *cells in rows:
        table.add_row(_text(f"  {operator}"), *cells)
    return table


def markdown(envelope: Envelope) -> str:
    """The same as Markdown."""
    result = _result(envelope)
    name = envelope.model.path if envelope.model else ""
    lines = [f"### {escape.markdown(name)}", ""]
    for title, text in [*words.about(result), *words.timing(result)]:
        lines.append(f"- {title + ': ' if title else ''}{escape.markdown(text)}")
    rows = words.operator_rows(result)
    if rows:
        lines += ["", escape.markdown(words.profile_title(result)), ""]
        lines += ["| operator | share | time a run | nodes |", "|---|---:|---:|---:|"]
        lines += ["| " + " | ".join(escape.markdown(cell) for cell in row) + " |" for row in rows]
    seen = words.facts(result)
    if seen:
        lines += ["", "What stands out:", "", *(f"- {escape.markdown(fact)}" for fact in seen)]
    if result.left_out:
        lines += ["", escape.markdown(words.left_out(result))]
    if envelope.error:
        lines += ["", f"**Not run**: {escape.markdown(envelope.error.what)}"]
    if result.next_commands:
        lines += ["", "Next:", "", *(f"    {escape.visible(command)}" for command in result.next_commands)]
    return "\n".join(lines) + "\n"


def _result(envelope: Envelope) -> LookResult:
    assert isinstance(envelope.result, LookResult)
    return envelope.result
