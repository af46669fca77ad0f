"""Time by operator and execution provider."""

from __future__ import annotations

from ortune.report import profile_words as words
from ortune.report.html import svg
from ortune.report.html.profile import Given

ORDER = 40
TITLE = "Operators"
NOTE = "Own time of all nodes of an operator in the mean run; nodes in bodies are not counted twice."
MOST = 24


def content(given: Given) -> dict[str, object] | None:
    """One bar an operator, from zero."""
    table = words.operators(given.result, MOST)
    times = [o.time_ns for o in given.result.operators]
    if not table.rows:
        return None
    shown = [*times[:MOST], *([sum(times[MOST:])] if len(times) > MOST else [])]
    scale = svg.Scale(low=0.0, high=max(shown) or 1.0)
    rows = []
    for row, ns in zip(table.rows, shown, strict=True):
        name, time, part, count = (cell.text for cell in row)
        mark = svg.tag("rect", x="0", width=svg.share(scale.at(ns)), y=5, height=14, class_="bar time sure")
        rows.append(
            {
                "name": name,
                "time": time,
                "share": part,
                "nodes": count,
                "plot": svg.picture(f"{name} {time}", [mark], height=24),
            }
        )
    return {"rows": rows}
