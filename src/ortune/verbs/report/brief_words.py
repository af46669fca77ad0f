"""Sentences and tables of the brief, the one-page summary for decision makers."""

from __future__ import annotations

from ortune.show.document import Cell, Column, Document, Line, Pairs, Tone, table
from ortune.show.numbers import change
from ortune.verbs.report import stored_words
from ortune.verbs.report.brief import bounds, number, saving, unshown
from ortune.verbs.report.result import Brief, BriefFigure, StoredSession

FIGURES = (
    Column("", "label"),
    Column("today"),
    Column("tuned"),
    Column("interval", "text"),
    Column("change"),
)
MARKS = {"fine": "ok", "look": "note", "stop": "STOP"}
TONES: dict[str, Tone] = {"ship": "good", "keep": "strong", "unproven": "unsure", "stop": "bad"}
RISK_TONES: dict[str, Tone] = {"fine": "", "look": "look", "stop": "stop"}


def load_words(brief: Brief) -> str:
    """Return the load as text: "200 requests/s", "100 requests/s (an example; set yours with --load)"."""
    text = f"{brief.load_per_s:g} requests/s"
    return text if brief.load_given else f"{text} (an example; set yours with --load)"


def cpu_words(brief: Brief) -> str:
    """Return a sentence on the CPUs that the load keeps busy today and the saving; "" if CPU time is unknown."""
    cpus = brief.cpus
    if cpus is None:
        return ""
    least = "at least " if brief.cpus_note else ""
    today = f"at {load_words(brief)} the model keeps {least}{number(cpus, cpus.today)} CPUs busy today"
    today += _overload(brief, cpus.today)
    if brief.cpus_note:
        if brief.tuned_plan:
            return f"{today}. The saving is unknown, because {brief.cpus_note}"
        return f"{today}; {brief.cpus_note}"
    if not brief.tuned_plan:
        return today
    tuned = f"tuned {number(cpus, cpus.tuned)} ({bounds(cpus)}){_overload(brief, cpus.tuned)}"
    return f"{today}, {tuned}: the change {saving(cpus)}"


def _overload(brief: Brief, busy: float) -> str:
    there = brief.cpus_there
    return f" (overloaded: only {there} available)" if there is not None and busy > there else ""


CPU_NOTE = "CPU time per run, as measured, times the load; excludes headroom, queueing and everything outside the model"


def figure_cells(figure: BriefFigure) -> tuple[str, ...]:
    """Return the cells of a row: (name, today's value, tuned value, interval of the tuned value, change)."""
    values = number(figure, figure.today), number(figure, figure.tuned)
    told_change = change(figure.ratio) if figure.ratio_low is None or figure.shown else unshown(figure)
    return figure.name, *values, bounds(figure), told_change


def plan_rows(brief: Brief) -> list[tuple[str, str]]:
    """Return (label, plan) rows for today's plan and the tuned plan."""
    return [("today", brief.today_plan), *([("tuned", brief.tuned_plan)] if brief.tuned_plan else [])]


def document(brief: Brief, session: StoredSession) -> Document:
    """Return the document: the decision, then the measured values, the risks, and the next steps."""
    marks = [(Cell(MARKS[r.level], tone=RISK_TONES[r.level]), r) for r in brief.risks]
    return Document(
        title="ortune report",
        blocks=[
            Line(f"{brief.subject}: {brief.answer}", TONES[brief.decision]),
            Line(brief.evidence),
            Line(stored_words.provenance(session), "faint"),
            Pairs(rows=plan_rows(brief)),
            table(FIGURES, [figure_cells(figure) for figure in brief.figures]),
            Line(cpu_words(brief), "strong"),
            *([Line(CPU_NOTE, "faint")] if brief.cpus is not None else []),
            table(
                [Column("", "label"), Column("", "label"), Column("", "text")],
                [(mark, risk.name, Cell(risk.what, tone=mark.tone)) for mark, risk in marks],
                dense=True,
            ),
            Pairs(rows=[("next", step) for step in brief.next_steps]),
        ],
    )
