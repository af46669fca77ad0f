"""Block by block: the ratio that was tested, with its interval."""

from __future__ import annotations

from ortune.records import BlockPoint, Comparison, Envelope, TuneResult
from ortune.report import tune_words as words
from ortune.report.html import points, svg

ORDER = 30
TITLE = "Block by block"
NOTE = (
    "Each block ran both sides next to each other in random order, so their ratio is free of what slowed both. "
    "Band: the interval. Above the line at 1x the winner is better."
)
HEIGHT = 150


def content(envelope: Envelope[TuneResult]) -> dict[str, object] | None:
    """A figure for each comparison that was confirmed, and the numbers behind them."""
    result = envelope.result
    if result.winner_figures is None and result.against_default is None:
        return None
    blocks = tuple(p for p in result.points if p.phase == "confirm")
    compared = [("default", result.against_default), ("current", result.against_current)]
    figures = [
        figure
        for role, comparison in compared
        if comparison is not None and (figure := _figure(result, blocks, role, comparison)) is not None
    ]
    if not figures:
        return None
    names = [(role, points.role_words(result, role)) for role in points.roles(result)]
    rows = [
        (
            point.index,
            [
                points.show(result, v) if (v := points.value(result, point, role)) is not None else ""
                for role, _ in names
            ],
            point.dropped,
        )
        for point in blocks
    ]
    return {"figures": figures, "heads": [name for _, name in names], "rows": rows}


def _figure(
    result: TuneResult, blocks: tuple[BlockPoint, ...], base: str, comparison: Comparison
) -> dict[str, object] | None:
    factors: list[float | None] = []
    for point in blocks:
        theirs, ours = points.value(result, point, base), points.value(result, point, "winner")
        factors.append(theirs / ours if theirs and ours and not point.dropped else None)
    known = [f for f in factors if f is not None]
    if not known:
        return None
    low = 1 / comparison.ratio_high if comparison.ratio_high else None
    high = 1 / comparison.ratio_low if comparison.ratio_low else None
    scale = svg.factor_scale([*known, *(v for v in (low, high) if v is not None)], slowest=0.01)
    marks = [svg.level(scale, t, "zero" if t == 1 else "grid") for t in scale.ticks]
    marks.append(svg.band(scale, low or scale.low, high or scale.high, "band winner"))
    marks.append(svg.level(scale, 1 / comparison.ratio, "estimate winner"))
    marks += svg.series(scale, factors, "winner")
    against = {"default": "the default", "current": "what runs today"}[base]
    claim = f"{words.times(1 / comparison.ratio)} ({words.bounds(comparison)})"
    return {
        "caption": f"Against {against}: {claim}, {len(known)} blocks",
        "side": svg.side_labels(scale, [words.times(t) for t in scale.ticks], height=HEIGHT),
        "plot": svg.picture(
            f"Speed-up against {against} in each of {len(known)} blocks, {claim}", marks, height=HEIGHT
        ),
    }
