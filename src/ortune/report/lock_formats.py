"""A lock, written or checked, for the terminal, as Markdown and as GitHub annotations."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ortune.records import Envelope, LockResult
from ortune.report import escape
from ortune.report import lock_words as words

MOST_LINES = 20
"""Differences listed one by one; the JSON has all."""


def terminal(envelope: Envelope) -> RenderableType:
    """For people at a terminal: the answer first, what supports it below."""
    result = _result(envelope)
    if result.written:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True, style="dim")
        grid.add_column(overflow="fold")
        for name, text in words.summary(result.snapshot, result.path):
            grid.add_row(name, _text(text))
        return Group(grid, Text(), Text("keep the lock with the model, and check it in CI with --check"))
    failing, told = words.details(result)
    style = "bold red" if failing else "bold yellow" if result.not_compared else "bold green"
    parts: list[RenderableType] = [_text(result.headline, style)]
    if len(failing) > 1:
        parts += [Text(), *_listed(failing)]
    if told:
        parts += [Text(), Text("also, and no failure:", style="dim"), *_listed(told)]
    if failing:
        parts += [Text(), Text("if this is meant, write the lock again and commit it with the model")]
    return Group(*parts)


def _listed(lines: list[str]) -> list[RenderableType]:
    # Padded rather than begun with blanks: what is folded stays indented.
    return [Padding(_text(line), (0, 0, 0, 2)) for line in _first(lines)]


def _first(lines: list[str]) -> list[str]:
    rest = len(lines) - MOST_LINES
    return lines[:MOST_LINES] + ([f"and {rest} more (--json has them)"] if rest > 0 else [])


def _text(text: str, style: str = "") -> Text:
    # A Text never reads markup; what is not printable is written out.
    return Text(escape.visible(text), style=style, overflow="fold")


def markdown(envelope: Envelope) -> str:
    """For a job summary or a pull request."""
    result = _result(envelope)
    if result.written:
        rows = words.summary(result.snapshot, result.path)
        lines = ["### ortune lock", "", *(f"- {name}: {escape.markdown(text)}" for name, text in rows)]
        return "\n".join(lines) + "\n"
    failing, told = words.details(result)
    lines = ["### ortune lock --check", "", f"**{escape.markdown(result.headline)}**", ""]
    lines += [f"- {escape.markdown(line)}" for line in _first(failing)]
    if told:
        lines += ["", "Also, and no failure:", "", *(f"- {escape.markdown(line)}" for line in _first(told))]
    return "\n".join(lines).rstrip("\n") + "\n"


def github(envelope: Envelope) -> str:
    """One workflow command: an error with every difference, or a notice."""
    result = _result(envelope)
    failing, told = words.details(result)
    level = "error" if failing else "notice"
    lines = [result.headline, *(_first(failing) if len(failing) > 1 else []), *_first(told)]
    return escape.workflow_command(level, "ortune lock", lines) + "\n"


def _result(envelope: Envelope) -> LockResult:
    assert isinstance(envelope.result, LockResult)
    return envelope.result
