"""The roofline: how near each node is to what this machine can do at most."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ortune.records import MachinePeak, ProfiledNode
from ortune.report import profile_words as words
from ortune.report.html import svg
from ortune.report.html.profile import Given
from ortune.report.look_words import operations
from ortune.report.numbers import duration, three

ORDER = 70
TITLE = "Roofline"
NOTE = (
    "Each dot is a node: across, operations for each byte that it moves; up, operations a second. The line is what "
    "this machine can do at most: memory on the slope, arithmetic on the level. A dot far below it could be faster; "
    "one above the slope has its values in a cache. Each as it is where nothing disturbs it. "
    "Larger: more time."
)
HEIGHT = 340
MOST = 300
NAMED = 5


def content(given: Given) -> dict[str, object] | None:
    """The scatter; None where no node's work is known."""
    result = given.result
    dots = [n for n in result.nodes if n.flops and n.bytes and n.least_ns > 0]
    dots = sorted(dots, key=lambda n: -n.time_ns)[:MOST]
    if not dots:
        return None
    peak = result.peak
    rates = [_rate(n) for n in dots]
    tops = [max(each.values()) for each in (peak.flops_per_s, peak.int8_ops_per_s) if each] if peak else []
    up = _decades([*rates, *tops])
    across = _decades([*(_intensity(n) for n in dots), *_ridges(peak)])
    marks = [svg.level(up, t, "grid") for t in up.ticks] + svg.gridlines(across)
    marks += _roofs(peak, across, up)
    largest = dots[0].time_ns
    # The large ones first, so that none is hidden.
    marks += [_dot(n, across, up, largest) for n in dots]
    ranked = dots[:NAMED]
    marks += [_rank(i + 1, n, across, up) for i, n in enumerate(ranked)]
    below = [
        svg.tag(
            "text",
            f"{t:g}",
            x=svg.share(across.at(t)),
            y=14,
            text_anchor="end" if t == across.high else "middle",
        )
        for t in across.ticks
    ]
    alt = f"{len(dots)} nodes; the most expensive, {words.name_of(dots[0])}, does {operations(rates[0])}/s"
    return {
        "side": svg.side_labels(up, [_short(t) for t in up.ticks], height=HEIGHT),
        "plot": svg.picture(alt, marks, height=HEIGHT, kind="scatter"),
        "axis": svg.tag("svg", *below, class_="plot axis", aria_hidden="true", height=20),
        "legend": _legend(peak, dots),
        "largest": [(words.name_of(n), _about(n)) for n in ranked],
        "left_out": len(result.nodes) - len(dots),
    }


def _rate(node: ProfiledNode) -> float:
    return (node.flops or 0.0) / node.least_ns * 1e9


def _intensity(node: ProfiledNode) -> float:
    return (node.flops or 0.0) / (node.bytes or 1.0)


def _decades(values: Sequence[float]) -> svg.Scale:
    """A logarithmic scale from the decade of the least to that of the largest value, at least two."""
    good = [v for v in values if v > 0]
    low, high = 10.0 ** _exponent(min(good)), 10.0 ** (_exponent(max(good)) + 1)
    if high / low < 100:
        low /= 10
    n = _exponent(high / low * 1.0001)
    ticks = [low * 10**i for i in range(n + 1)]
    return svg.Scale(low=low, high=high, log=True, ticks=tuple(ticks[:: 1 + len(ticks) // 8]))


def _exponent(value: float) -> int:
    return int(f"{value:e}".partition("e")[2])


def _ridges(peak: MachinePeak | None) -> list[float]:
    """Where the slopes meet the levels."""
    if peak is None or not peak.bytes_per_s:
        return []
    moved = max(peak.bytes_per_s.values())
    return [max(each.values()) / moved for each in (peak.flops_per_s, peak.int8_ops_per_s) if each and moved]


def _roofs(peak: MachinePeak | None, across: svg.Scale, up: svg.Scale) -> list[Markup]:
    """One roof with all threads, one with a single thread, and the level of int8."""
    if peak is None or not peak.bytes_per_s or not peak.flops_per_s:
        return []
    most = max(peak.flops_per_s)
    moved = max(peak.bytes_per_s.values())
    marks = []
    for flops, rate, kind in (
        (max(peak.int8_ops_per_s.values(), default=0.0), moved, "roof int8"),
        (peak.flops_per_s[most], moved, "roof"),
        (peak.flops_per_s.get(1, 0.0), peak.bytes_per_s.get(1, 0.0), "roof single"),
    ):
        if flops and rate and not (kind == "roof single" and most == 1):
            marks += _roof(flops, rate, kind, across, up)
    return marks


def _roof(flops: float, moved: float, kind: str, across: svg.Scale, up: svg.Scale) -> list[Markup]:
    ridge = flops / moved
    marks = []
    if ridge > across.low:
        # The slope comes in through the left edge or the bottom.
        start = max(across.low, up.low / moved)
        marks.append(_line(start, start * moved, ridge, flops, kind, across, up))
    marks.append(_line(max(ridge, across.low), flops, across.high, flops, kind, across, up))
    return marks


def _line(x1: float, y1: float, x2: float, y2: float, kind: str, across: svg.Scale, up: svg.Scale) -> Markup:
    return svg.tag(
        "line",
        x1=svg.share(across.at(x1)),
        y1=svg.share(1 - up.at(y1)),
        x2=svg.share(across.at(x2)),
        y2=svg.share(1 - up.at(y2)),
        class_=kind,
    )


def _dot(node: ProfiledNode, across: svg.Scale, up: svg.Scale, largest: float) -> Markup:
    return svg.tag(
        "circle",
        svg.tag("title", f"{words.name_of(node)} {_about(node)}"),
        cx=svg.share(across.at(_intensity(node))),
        cy=svg.share(1 - up.at(_rate(node))),
        r=2.5 + 8.5 * (node.time_ns / largest) ** 0.5,
        class_=f"node {node.bound or 'unbound'}",
    )


def _about(node: ProfiledNode) -> str:
    floor = f", {words.floor_ratio(node)} times its roofline bound" if node.floor_ns else ""
    return (
        f"({node.op_type}): {duration(node.time_ns)}{floor}; {operations(_rate(node))}/s, "
        f"{three(_intensity(node))} FLOP a byte"
    )


def _rank(number: int, node: ProfiledNode, across: svg.Scale, up: svg.Scale) -> Markup:
    """The number of one of the largest, which are named below."""
    return svg.tag(
        "text",
        str(number),
        x=svg.share(across.at(_intensity(node))),
        y=svg.share(1 - up.at(_rate(node))),
        dy="0.35em",
        text_anchor="middle",
        class_="rank",
    )


def _legend(peak: MachinePeak | None, dots: Sequence[ProfiledNode]) -> list[tuple[str, str]]:
    found = []
    if peak is not None and peak.flops_per_s and peak.bytes_per_s:
        most, moved = max(peak.flops_per_s), max(peak.bytes_per_s.values())
        n = "1 thread" if most == 1 else f"{most} threads"
        found.append(
            ("roof", f"{n}, float32: {operations(peak.flops_per_s[most])}/s, {three(moved / 1e9)} GB/s")
        )
        if most > 1 and 1 in peak.flops_per_s:
            found.append(("roof single", f"1 thread: {operations(peak.flops_per_s[1])}/s"))
        if peak.int8_ops_per_s:
            most_int8 = operations(max(peak.int8_ops_per_s.values())).replace("FLOP", "OP")
            found.append(("roof int8", f"int8: {most_int8}/s"))
    bounds = {n.bound for n in dots}
    found += [(f"node {b}", f"bound by {b}") for b in ("compute", "memory", "overhead") if b in bounds]
    return found


def _short(rate: float) -> str:
    """A rate for the scale beside the drawing: "10 G"."""
    for unit, scale in ((" T", 1e12), (" G", 1e9), (" M", 1e6), (" k", 1e3)):
        if rate >= scale:
            return f"{rate / scale:.0f}{unit}"
    return f"{rate:.0f}"
