"""A tuning for the terminal, for a job summary and as GitHub annotations."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ortune.records import CaseResult, Envelope, TuneResult
from ortune.report import escape
from ortune.report import tune_words as words
from ortune.report.compare_words import span
from ortune.report.numbers import change, duration

INTERRUPTED = "stopped early; this is what was measured by then"
TRADE_HEADS = ("", "plan", "latency", "CPU a run", "memory", "")


def terminal(envelope: Envelope) -> RenderableType:
    """For people at a terminal: the sentence first, what supports it below, what to paste last."""
    result = _result(envelope)
    parts: list[RenderableType] = []
    if envelope.status == "interrupted":
        parts.append(_text(INTERRUPTED, "yellow"))
    parts.append(_text(_headline(result), _style(result)))
    details = words.details(result)
    if details:
        parts += [Text(), _details(details)]
    parts += [Text(), _table(words.sides(result)[0], words.sides(result)[1:], left=(0,))]
    if result.trade:
        parts += [Text(), _table(TRADE_HEADS, [words.trade_cells(r) for r in result.trade], left=(0, 1, 5))]
    if result.cases:
        parts += [Text(), _table(case_heads(result), [_case_cells(c) for c in result.cases], left=(0, 5))]
    if result.code:
        parts += [Text(), _text("to paste:", "dim")]
        parts += [Text(line, overflow="fold") for line in code_lines(result.code)]
    places = _places(result)
    if places:
        parts += [Text(), _details(places)]
    return Group(*parts)


def _headline(result: TuneResult) -> str:
    return result.headline or words.headline(result)


def _style(result: TuneResult) -> str:
    found = words.deciding(result)
    if found is not None and found.verdict == "faster" and found.phase == "confirm":
        return "bold green" if not any(g.failed for g in found.guards) else "bold yellow"
    return "bold"


def _text(text: str, style: str = "") -> Text:
    # A Text never reads markup; what is not printable is written out.
    return Text(escape.visible(text), style=style, overflow="fold")


def code_lines(code: str) -> list[str]:
    """Code to paste, line by line; what is not printable is written out."""
    return [escape.visible(line) for line in code.strip("\n").splitlines()]


def _details(details: Sequence[tuple[str, str]]) -> Table:
    """Two columns, so that a sentence that is folded stays under itself."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for name, text in details:
        grid.add_row(name, _text(text, "yellow" if name == "finding" else ""))
    return grid


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for index, name in enumerate(heads):
        # Numbers stay whole; names and intervals fold where the terminal is narrow.
        folds = index in left
        table.add_column(name, justify="left" if folds else "right", overflow="fold", no_wrap=not folds)
    for row in rows:
        table.add_row(*(_text(cell) for cell in row))
    return table


def case_heads(result: TuneResult) -> tuple[str, ...]:
    """Heads of the table of shapes; the base is what the headline compares with."""
    base = "today" if words.today(result) is not None else "default"
    return ("shape", "weight", base, "winner", "change", "interval")


def _case_cells(case: CaseResult) -> tuple[str, ...]:
    interval = span(case.ratio_low, case.ratio_high)
    times = duration(case.base_ns), duration(case.new_ns)
    return case.case, f"{case.weight:.2f}", *times, change(case.ratio), interval


def _places(result: TuneResult) -> list[tuple[str, str]]:
    """Where the deliverables lie, and how to get them again."""
    named = [
        ("bundle", result.bundle),
        ("report", result.report),
        ("spent", spent(result)),
        *(("again", line) for line in result.reproduce.splitlines()),
    ]
    return [(name, text) for name, text in named if text]


def spent(result: TuneResult) -> str:
    """What the run took: trials, and seconds by phase."""
    b = result.budget
    phases = (("calibration", b.calibration_s), ("race", b.race_s), ("confirmation", b.confirm_s))
    parts = [f"{name} {seconds:.0f} s" for name, seconds in phases if seconds]
    if b.n_trials:
        parts.insert(0, f"{b.n_trials} trials")
    return ", ".join(parts)


def markdown(envelope: Envelope) -> str:
    """For a job summary or a pull request."""
    result = _result(envelope)
    parts = [[f"### ortune tune: {escape.markdown(result.side.label)}"]]
    if envelope.status == "interrupted":
        parts.append([f"*{INTERRUPTED}*"])
    parts.append([f"**{escape.markdown(_headline(result))}**"])
    parts.append([f"- {name}: {escape.markdown(text)}" for name, text in words.details(result)])
    heads, *rows = words.sides(result)
    parts.append(_md_table(heads, rows, left=(0,)))
    if result.trade:
        cells = [words.trade_cells(row) for row in result.trade]
        parts.append(_md_table(TRADE_HEADS, cells, left=(0, 1, 5)))
    if result.cases:
        parts.append(_md_table(case_heads(result), [_case_cells(c) for c in result.cases], left=(0, 5)))
    if result.code:
        # Indented, not fenced: no line of the code can close a fence.
        parts += [["To paste:"], [f"    {line}" for line in code_lines(result.code)]]
    parts.append([f"- {name}: {escape.markdown(text)}" for name, text in _places(result)])
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _md_table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int]) -> list[str]:
    rule = "|".join("---" if index in left else "---:" for index in range(len(heads)))
    return [_md_row(heads), f"|{rule}|", *(_md_row(row) for row in rows)]


def _md_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(escape.markdown(cell) for cell in cells) + " |"


def github(envelope: Envelope) -> str:
    """Workflow commands: one annotation for the answer and one a finding."""
    result = _result(envelope)
    lines = [escape.workflow_command("notice", f"ortune: {result.side.label}", [_headline(result)])]
    lines += [
        escape.workflow_command("warning", f"ortune {f.code}", ["; ".join(p for p in (f.what, f.fix) if p)])
        for f in result.findings
    ]
    return "\n".join(lines) + "\n"


def _result(envelope: Envelope) -> TuneResult:
    assert isinstance(envelope.result, TuneResult)
    return envelope.result
