"""The brief as one HTML page: A4 in print, light and dark on screen, without scripts or links."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from ortune.show.chart import Axis, Box, Chart, Mark, Segment
from ortune.show.html import frame, svg
from ortune.show.numbers import change
from ortune.verbs.report import brief_words as words
from ortune.verbs.report import stored_words
from ortune.verbs.report.brief import bounds, saving
from ortune.verbs.report.result import Brief, BriefFigure, StoredSession

ROW_PX = 36


def render(brief: Brief, session: StoredSession) -> str:
    """Return the brief as a self-contained HTML document."""
    all_of_it = f"; full report: ortune report {session.id}" if session.id else ""
    return frame.page(
        "brief.html.j2",
        product="brief",
        subject=brief.subject,
        title="brief",
        basis="Medians over fresh processes. Tuned values are today's values times the paired ratio, with its interval"
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
    """Return a chart of each tuned value relative to today's: a bar with its interval, and a line at today's value."""
    if not brief.figures:
        return Markup("")
    highest = max([1.0, *(v for f in brief.figures for v in (f.ratio, f.ratio_high) if v is not None)])
    axis = Axis(high=min(highest * 1.08, 2.5), ticks=((0.0, "0"), (1.0, "today")), strong=1.0)
    n = len(brief.figures)
    rows = tuple((-i - 0.5, figure.name) for i, figure in enumerate(brief.figures))
    changes = "; ".join(f"{f.name} {change(f.ratio)}, {bounds(f)}" for f in brief.figures)
    chart = Chart(
        alt=f"Tuned against today: {changes}",
        marks=tuple(
            m for (y, _), figure in zip(rows, brief.figures, strict=True) for m in _bar(axis, figure, y)
        ),
        height_px=ROW_PX * n,
        x=axis,
        y=Axis(low=-float(n), high=0.0, ticks=rows),
    )
    return svg.chart(chart)


def _bar(axis: Axis, figure: BriefFigure, y: float) -> Iterator[Mark]:
    """Yield the marks of a bar with its interval; a bar without an interval is hollow."""
    sure = figure.ratio_low is not None
    hue = "bad" if figure.shown and figure.ratio > 1 else "winner" if figure.shown else "default"
    yield Box(x0=0.0, x1=figure.ratio, y0=y - 0.25, y1=y + 0.25, hue=hue, sure=sure)
    if sure:
        low, high = figure.ratio_low or 0.0, axis.high if figure.ratio_high is None else figure.ratio_high
        yield Segment(x0=low, x1=high, y0=y, y1=y, hue="whisker")
        yield from (Segment(x0=end, x1=end, y0=y - 0.15, y1=y + 0.15, hue="whisker") for end in (low, high))
