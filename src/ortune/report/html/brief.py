"""The brief as one page: A4 on paper, light and dark on a screen, without a script and without a link to anywhere."""

from __future__ import annotations

from markupsafe import Markup

from ortune.records import Brief, BriefFigure, StoredSession
from ortune.report import brief_words as words
from ortune.report import stored_words
from ortune.report.brief import bounds, number, saving
from ortune.report.chart import Axis
from ortune.report.html import frame, svg
from ortune.report.numbers import change

ROW_PX = 46
LABEL_PX = 15
"""Height of a bar with its name above it, and where the name's baseline lies."""


def render(brief: Brief, session: StoredSession) -> str:
    """The page as one HTML document."""
    all_of_it = f"; all of it: ortune report {session.id}" if session.id else ""
    return frame.page(
        "brief.html.j2",
        product="brief",
        subject=brief.subject,
        title="brief",
        basis="Medians over fresh processes; tuned values are today's times the paired ratio with its interval"
        f"{all_of_it}.",
        ortune=session.ortune,
        styles=["brief.css"],
        scripts=(),
        brief=brief,
        provenance=stored_words.provenance(session),
        plans=words.plan_rows(brief),
        figures=[_cells(f) for f in brief.figures],
        cpus=_cells(brief.cpus) if brief.cpus else None,
        saving=saving(brief.cpus) if brief.cpus and brief.tuned_plan and not brief.cpus_note else "",
        load=words.load_words(brief),
        cpu_note=words.CPU_NOTE,
        marks=words.MARKS,
        chart=_chart(brief),
    )


def _cells(figure: BriefFigure) -> dict[str, str]:
    name, today, tuned, interval, difference = words.figure_cells(figure)
    return {"name": name, "today": today, "tuned": tuned, "interval": interval, "change": difference}


def _chart(brief: Brief) -> Markup:
    """Each figure tuned as a share of today: a bar from zero, its interval, and the line at today."""
    if not brief.figures:
        return Markup("")
    highest = max([1.0, *(v for f in brief.figures for v in (f.ratio, f.ratio_high) if v is not None)])
    axis = Axis(high=min(highest * 1.08, 2.5))
    bottom = ROW_PX * len(brief.figures) + 6
    marks = []
    for index, figure in enumerate(brief.figures):
        marks += _bar(axis, figure, top=ROW_PX * index)
    line = svg.share(axis.at(1.0))
    marks.append(svg.tag("line", x1=line, x2=line, y1="0", y2=bottom, class_="zero"))
    marks.append(svg.tag("text", "today", x=line, y=bottom + LABEL_PX, text_anchor="middle"))
    marks.append(svg.tag("text", "0", x="0", y=bottom + LABEL_PX))
    alt = "Tuned against today: " + "; ".join(
        f"{f.name} {change(f.ratio)}, {bounds(f)}" for f in brief.figures
    )
    return svg.picture(alt, marks, height=bottom + LABEL_PX + 8)


def _bar(axis: Axis, figure: BriefFigure, *, top: int) -> list[Markup]:
    """Name and values above a bar with its interval; hollow where no interval supports it."""
    sure = figure.ratio_low is not None
    kind = "bad" if figure.shown and figure.ratio > 1 else "winner" if figure.shown else "default"
    y, low, high = top + 31, figure.ratio_low, figure.ratio_high
    values = f"{figure.name}: {number(figure, figure.today)} to {number(figure, figure.tuned)}"
    marks = [
        svg.tag("text", values, x="0", y=top + LABEL_PX, class_="name"),
        svg.tag(
            "rect",
            x="0",
            y=y - 9,
            width=svg.share(axis.at(figure.ratio)),
            height=18,
            class_=f"bar {kind} {'sure' if sure else 'unsure'}",
        ),
    ]
    if sure:
        ends = {
            "x1": svg.share(axis.at(low or 0.0)),
            "x2": svg.share(axis.at(axis.high if high is None else high)),
        }
        marks.append(svg.tag("line", **ends, y1=y, y2=y, class_="whisker"))
        for x in ends.values():
            marks.append(svg.tag("line", x1=x, x2=x, y1=y - 5, y2=y + 5, class_="whisker"))
    return marks
