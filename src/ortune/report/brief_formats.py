"""The brief for the terminal and as Markdown."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ortune.records import Brief, BriefFigure, BriefRisk, StoredSession
from ortune.report import escape, told
from ortune.report.brief import bounds, number, saving
from ortune.report.numbers import change

FIGURE_HEADS = ("", "today", "tuned", "interval", "change")
MARKS = {"fine": "ok", "look": "look", "stop": "STOP"}
STYLES = {"ship": "bold green", "keep": "bold", "unproven": "bold yellow", "stop": "bold red"}
RISK_STYLES = {"fine": "", "look": "yellow", "stop": "red"}


def load_words(brief: Brief) -> str:
    """The load that is reckoned for: "200 requests/s", "100 requests/s (an example; --load says yours)"."""
    text = f"{brief.load_per_s:g} requests/s"
    return text if brief.load_given else f"{text} (an example: --load says yours)"


def cpu_words(brief: Brief) -> str:
    """What the load keeps busy today, and what the other plan saves; "" where CPU time is not known."""
    found = brief.cpus
    if found is None:
        return ""
    least = "at least " if brief.cpus_note else ""
    today = f"at {load_words(brief)} the model keeps {least}{number(found, found.today)} CPUs busy today"
    if brief.cpus_note:
        change_words = "what the change saves is not known: " if brief.tuned_plan else ""
        return f"{today}; {change_words}{brief.cpus_note}"
    if not brief.tuned_plan:
        return today
    return f"{today}, tuned {number(found, found.tuned)} ({bounds(found)}): the change {saving(found)}"


CPU_NOTE = (
    "CPU time a run, as measured, times the load; without headroom, queueing and everything outside the model"
)


def figure_cells(figure: BriefFigure) -> tuple[str, ...]:
    """Name, today, tuned, its interval, the change."""
    values = number(figure, figure.today), number(figure, figure.tuned)
    told_change = change(figure.ratio) if figure.ratio_low is None or figure.shown else "none shown"
    return figure.name, *values, bounds(figure), told_change


def plan_rows(brief: Brief) -> list[tuple[str, str]]:
    """The two plans."""
    return [("today", brief.today_plan), *([("tuned", brief.tuned_plan)] if brief.tuned_plan else [])]


def terminal(brief: Brief, session: StoredSession) -> RenderableType:
    """For people at a terminal."""
    parts: list[RenderableType] = [_text(f"{brief.subject}: {brief.answer}", STYLES[brief.decision])]
    parts += [_text(line) for line in (brief.evidence,) if line]
    parts += [_text(told.provenance(session), "dim"), Text(), _pairs(plan_rows(brief)), Text()]
    if brief.figures:
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        for name in FIGURE_HEADS:
            table.add_column(name, justify="left" if name in ("", "interval") else "right", overflow="fold")
        for figure in brief.figures:
            table.add_row(*(_text(cell) for cell in figure_cells(figure)))
        parts += [table, Text()]
    if brief.cpus is not None:
        parts += [_text(cpu_words(brief), "bold"), _text(CPU_NOTE, "dim"), Text()]
    if brief.risks:
        parts += [_risks(brief.risks), Text()]
    parts += [_text(f"next: {step}") for step in brief.next_steps]
    return Group(*parts)


def _pairs(rows: list[tuple[str, str]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for name, text in rows:
        grid.add_row(name, _text(text))
    return grid


def _risks(risks: tuple[BriefRisk, ...]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for risk in risks:
        style = RISK_STYLES[risk.level]
        grid.add_row(_text(MARKS[risk.level], style), _text(risk.name), _text(risk.what, style))
    return grid


def markdown(brief: Brief, session: StoredSession) -> str:
    """For a message or a ticket."""
    safe = escape.markdown
    lines = [f"### {safe(brief.subject)}: {safe(brief.answer)}", ""]
    lines += [f"{safe(line)}\n" for line in (brief.evidence, told.provenance(session)) if line]
    lines += [*(f"- {name}: {safe(text)}" for name, text in plan_rows(brief)), ""]
    if brief.figures:
        lines += [
            _row(FIGURE_HEADS),
            "|---|---:|---:|---|---:|",
            *(_row(figure_cells(f)) for f in brief.figures),
            "",
        ]
    if brief.cpus is not None:
        lines += [f"**{safe(cpu_words(brief))}**", "", f"*{CPU_NOTE}*", ""]
    if brief.risks:
        rows = ((MARKS[r.level], r.name, r.what) for r in brief.risks)
        lines += [_row(("", "risk", "")), "|---|---|---|", *(_row(cells) for cells in rows), ""]
    lines += [f"- next: {safe(step)}" for step in brief.next_steps]
    return "\n".join(lines) + "\n"


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(escape.markdown(cell) for cell in cells) + " |"


def _text(text: str, style: str = "") -> Text:
    # A Text never reads markup; what is not printable is written out.
    return Text(escape.visible(text), style=style, overflow="fold")
