"""A comparison for the terminal, for a job summary and as GitHub annotations."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ortune.records import CaseResult, CompareResult, Envelope
from ortune.report import compare_words as words
from ortune.report import difference_words, escape
from ortune.report.numbers import change, duration

INTERRUPTED = "stopped early; this is what was measured by then"
CASE_HEADS = ("shape", "weight", "A", "B", "B against A", "interval")


def terminal(envelope: Envelope) -> RenderableType:
    """For people at a terminal: the sentence first, what supports it below."""
    result = _result(envelope)
    style = words.STYLES[result.comparison.verdict if result.comparison else "wrong-output"]
    parts: list[RenderableType] = [_text(line, "bold") for line in words.gate(result)]
    if envelope.status == "interrupted":
        parts.append(_text(INTERRUPTED, "yellow"))
    parts.append(_text(words.headline(result), style))
    details = words.details(result)
    if details:
        parts += [Text(), _details(details)]
    rows = words.side_rows(result)
    if rows:
        parts += [Text(), _sides(rows)]
    if result.cases:
        parts += [Text(), _cases(result.cases)]
    if result.why is not None:
        first, *rest = difference_words.brief(result.why)
        parts += [Text(), _details([("why", first), *(("", line) for line in rest)])]
    return Group(*parts)


def _text(text: str, style: str = "") -> Text:
    # A Text never reads markup; what is not printable is written out.
    return Text(escape.visible(text), style=style, overflow="fold")


def _details(details: Sequence[tuple[str, str]]) -> Table:
    """Two columns, so that a sentence that is folded stays under itself."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for name, text in details:
        grid.add_row(name, _text(text, "yellow" if name == "finding" else ""))
    return grid


def _sides(rows: Sequence[tuple[str, str, str]]) -> Table:
    # Values of a row have different units from those above and below: left-aligned, they read as a list.
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("", no_wrap=True, style="dim")
    for name in ("A", "B"):
        table.add_column(name, overflow="fold")
    for name, a, b in rows:
        table.add_row(name, _text(a), _text(b))
    return table


def _cases(cases: Sequence[CaseResult]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for name in CASE_HEADS:
        left = name in ("shape", "interval")
        table.add_column(name, justify="left" if left else "right", overflow="fold", no_wrap=not left)
    for case in cases:
        table.add_row(*(_text(cell) for cell in _case_cells(case)))
    return table


def _case_cells(case: CaseResult) -> tuple[str, ...]:
    span = words.span(case.ratio_low, case.ratio_high)
    times = duration(case.base_ns), duration(case.new_ns)
    return case.case, f"{case.weight:.2f}", *times, change(case.ratio), span


def markdown(envelope: Envelope) -> str:
    """For a job summary or a pull request."""
    result = _result(envelope)
    labels = f"{result.base.label} against {result.new.label}"
    lines = [f"### ortune compare: {escape.markdown(labels)}", ""]
    lines += [f"**{escape.markdown(line)}**\n" for line in words.gate(result)]
    if envelope.status == "interrupted":
        lines += [f"*{INTERRUPTED}*", ""]
    lines += [escape.markdown(words.headline(result)), ""]
    lines += [f"- {name}: {escape.markdown(text)}" for name, text in words.details(result)]
    rows = words.side_rows(result)
    if rows:
        lines += ["", "| | A | B |", "|---|---|---|"]
        lines += [_md_row(row) for row in rows]
    if result.cases:
        lines += ["", _md_row(CASE_HEADS), "|---|---:|---:|---:|---:|---|"]
        lines += [_md_row(_case_cells(case)) for case in result.cases]
    if result.why is not None:
        first, *rest = difference_words.brief(result.why)
        lines += ["", f"Why: {escape.markdown(first)}", "", *(f"- {escape.markdown(line)}" for line in rest)]
    return "\n".join(lines) + "\n"


def _md_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(escape.markdown(cell) for cell in cells) + " |"


def github(envelope: Envelope) -> str:
    """Workflow commands: one annotation for the answer and one a finding."""
    result = _result(envelope)
    level = "notice" if result.comparison else "error"
    if result.gate:
        level = {"fail": "error", "undecided": "warning", "pass": "notice"}[result.gate.answer]
        if result.gate.answer == "undecided" and result.gate.undecided_counts_as == "fail":
            level = "error"
    text = [*words.gate(result), words.headline(result)]
    lines = [escape.workflow_command(level, f"ortune: {result.new.label}", text)]
    lines += [
        escape.workflow_command("warning", f"ortune {f.code}", [f"{f.what}; {f.fix}"])
        for f in result.findings
    ]
    return "\n".join(lines) + "\n"


def _result(envelope: Envelope) -> CompareResult:
    assert isinstance(envelope.result, CompareResult)
    return envelope.result
