"""What must not get worse, and whether the outputs stayed the same."""

from __future__ import annotations

from ortune.records import Envelope, Guard, TuneResult
from ortune.report import tune_words as words
from ortune.report.checks import GUARD_NAMES, guard_state
from ortune.report.html import svg
from ortune.report.numbers import change, span

ORDER = 50
TITLE = "Guards and figures"
NOTE = (
    "What must not get worse while another figure gets better. The dashed line is the limit; left is better."
)


def content(envelope: Envelope[TuneResult]) -> dict[str, object] | None:
    """A row a guard, the outputs, and what describes both sides."""
    result = envelope.result
    found = words.deciding(result)
    items = found.guards if found is not None else ()
    bounds = [v for g in items for v in (g.ratio, g.ratio_low, g.ratio_high, g.limit_ratio) if v]
    scale = svg.factor_scale(bounds, steps=svg.CHANGES)
    heads, *rows = words.sides(result)
    return {
        "guards": [_row(item, scale) for item in items],
        "axis": svg.axis(scale, lambda t: f"{100 * (t - 1):+.0f} %" if t != 1 else "0 %"),
        "outputs": words.outputs(result),
        "heads": heads,
        "rows": rows,
        "base": "what runs today" if words.today(result) is not None else "the default",
    }


def _row(item: Guard, scale: svg.Scale) -> dict[str, object]:
    marks = svg.gridlines(scale, strong=1.0)
    limit = svg.share(scale.at(item.limit_ratio))
    marks.append(svg.tag("line", x1=limit, x2=limit, y1="0", y2="100%", class_="limit"))
    state = guard_state(item)
    if item.ratio is not None:
        kind = "bad" if item.failed else "winner"
        low, high = (
            (item.ratio_low, item.ratio_high) if item.ratio_low is not None else (item.ratio, item.ratio)
        )
        marks += svg.interval(scale, item.ratio, low, high, sure=True, kind=kind)
    return {
        "name": GUARD_NAMES[item.figure],
        "change": change(item.ratio) if item.ratio is not None else "",
        "interval": span(item.ratio_low, item.ratio_high) if item.ratio_low is not None else "",
        "limit": change(item.limit_ratio),
        "state": state,
        "failed": item.failed,
        "note": item.note,
        "plot": svg.picture(f"{words.guard(item)}; limit {change(item.limit_ratio)}", marks),
    }
