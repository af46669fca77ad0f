"""Where the blocks lie: default, today's plan and winner."""

from __future__ import annotations

from markupsafe import Markup

from ortune.records import Envelope, TuneResult
from ortune.report.html import points, svg

ORDER = 20
TITLE = "Distributions"
NOTE = (
    "One dot a block (one fresh process). Tick: median; bar: IQR of the trials. The axis may not start at 0."
)


def content(envelope: Envelope[TuneResult]) -> dict[str, object] | None:
    """One strip a role on a common scale; None where no block was measured."""
    result = envelope.result
    blocks = points.counting(result.points)
    found = {
        role: [v for p in blocks if (v := points.value(result, p, role)) is not None]
        for role in points.roles(result)
    }
    found = {role: values for role, values in found.items() if values}
    if not found:
        return None
    recorded = [v for role in found for v in points.middle(result, role) if v is not None]
    scale = svg.value_scale([*recorded, *(v for values in found.values() for v in values)])
    return {
        "rows": [_row(result, role, values, scale) for role, values in found.items()],
        "axis": svg.picture(
            "scale", svg.labels(scale, [points.show(result, t) for t in scale.ticks]), height=20, kind="axis"
        ),
        "estimand": result.estimand,
        "phase": "the confirmation" if blocks[0].phase == "confirm" else "the race and the calibration",
    }


def _row(result: TuneResult, role: str, values: list[float], scale: svg.Scale) -> dict[str, object]:
    median, low, high = points.middle(result, role)
    marks: list[Markup] = svg.gridlines(scale)
    if low is not None and high is not None:
        x, width = scale.at(low), scale.at(high) - scale.at(low)
        across = svg.share(max(0.0, width))
        marks.append(svg.tag("rect", class_=f"box {role}", x=svg.share(x), width=across, y=6, height=30))
    marks += svg.dots(scale, values, role, height=42)
    if median is not None:
        at = svg.share(scale.at(median))
        marks.append(svg.tag("line", x1=at, x2=at, y1="3", y2="39", class_=f"median {role}"))
    name = points.role_words(result, role)
    shown = points.show(result, median) if median is not None else ""
    alt = (
        f"{name}: {len(values)} blocks from {points.show(result, min(values))} "
        f"to {points.show(result, max(values))}" + (f", median {shown}" if shown else "")
    )
    return {
        "role": role,
        "name": name,
        "plot": svg.picture(alt, marks, height=42),
        "median": shown,
        "middle": f"{points.show(result, low)} to {points.show(result, high)}" if low and high else "",
        "n": len(values),
    }
