"""Roofline chart: the performance of each node compared with the machine's peak."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.printable import amount
from ortune.records import Envelope, MachinePeak, ProfiledNode, ProfileResult
from ortune.show.chart import Axis, Chart, Dot, Segment, decade_axis
from ortune.show.document import Block, Line, Points
from ortune.show.numbers import duration, operations, significant
from ortune.show.profile_nodes import floor_ratio, name_of

ORDER = 70
TITLE = "Roofline"
NOTE = (
    "Each dot is a node, without interference. Horizontal: operations per byte moved; vertical: operations per "
    "second. The line is the peak of this machine: memory bandwidth on the slope, arithmetic on the plateau. A "
    "dot far below could be faster; one above the slope has its values in a cache. Larger dots take more time."
)
HEIGHT_PX = 340
MOST = 300
NAMED = 5


def blocks(envelope: Envelope[ProfileResult]) -> list[Block]:
    """Return the scatter chart; [] if the work of all nodes is unknown."""
    result = envelope.result
    dots = [n for n in result.nodes if n.flops and n.bytes and n.least_ns > 0]
    dots = sorted(dots, key=lambda n: -n.time_ns)[:MOST]
    if not dots:
        return []
    peak = result.peak
    rates = [_rate(n) for n in dots]
    tops = (
        [max(by_threads.values()) for by_threads in (peak.flops_per_s, peak.int8_ops_per_s) if by_threads]
        if peak
        else []
    )
    up = decade_axis([*rates, *tops], _short)
    across = decade_axis([*(_intensity(n) for n in dots), *_ridges(peak)], lambda t: f"{t:g}")
    left_out = len(result.nodes) - len(dots)
    return [
        Chart(
            title="FLOP/s (vertical) by FLOP per byte moved (horizontal); larger dots take more time",
            alt=f"{amount(len(dots), 'node')}; the most expensive, {name_of(dots[0])}, does {operations(rates[0])}/s",
            # The large ones first, so that none is hidden; their numbers on top of all.
            marks=(
                *_roofs(peak, across, up),
                *(_dot(node, dots[0].time_ns) for node in dots),
                *(_number(i, node) for i, node in enumerate(dots[:NAMED], 1)),
            ),
            height_px=HEIGHT_PX,
            x=across,
            y=up,
            legend=_legend(peak, dots),
        ),
        Points(items=[f"{i}. {name_of(n)} {_about(n)}" for i, n in enumerate(dots[:NAMED], 1)]),
        Line(
            f"{left_out} nodes are not drawn, because their work is unknown or too small."
            if left_out
            else "",
            "faint",
        ),
    ]


def _rate(node: ProfiledNode) -> float:
    return (node.flops or 0.0) / node.least_ns * 1e9


def _intensity(node: ProfiledNode) -> float:
    return (node.flops or 0.0) / (node.bytes or 1.0)


def _ridges(peak: MachinePeak | None) -> list[float]:
    """Return the arithmetic intensities at which the memory slopes meet the compute limits."""
    if peak is None or not peak.bytes_per_s:
        return []
    moved = max(peak.bytes_per_s.values())
    return [
        max(by_threads.values()) / moved
        for by_threads in (peak.flops_per_s, peak.int8_ops_per_s)
        if by_threads and moved
    ]


def _roofs(peak: MachinePeak | None, across: Axis, up: Axis) -> list[Segment]:
    """Return the line segments of the roofs: for all threads, for a single thread, and the int8 limit."""
    if peak is None or not peak.bytes_per_s or not peak.flops_per_s:
        return []
    most = max(peak.flops_per_s)
    moved = max(peak.bytes_per_s.values())
    marks = []
    for flops, rate, hue in (
        (max(peak.int8_ops_per_s.values(), default=0.0), moved, "roof int8"),
        (peak.flops_per_s[most], moved, "roof"),
        (peak.flops_per_s.get(1, 0.0), peak.bytes_per_s.get(1, 0.0), "roof single"),
    ):
        if flops and rate and not (hue == "roof single" and most == 1):
            marks += _roof(flops, rate, hue, across, up)
    return marks


def _roof(flops: float, moved: float, hue: str, across: Axis, up: Axis) -> list[Segment]:
    ridge = flops / moved
    marks = []
    if ridge > across.low:
        # The sloped line enters the chart at its left or bottom edge.
        start = max(across.low, up.low / moved)
        marks.append(Segment(x0=start, y0=start * moved, x1=ridge, y1=flops, hue=hue))
    marks.append(Segment(x0=max(ridge, across.low), y0=flops, x1=across.high, y1=flops, hue=hue))
    return marks


def _dot(node: ProfiledNode, largest_ns: float) -> Dot:
    return Dot(
        x=_intensity(node),
        y=_rate(node),
        hue=f"node {node.bound or 'unbound'}",
        # By the root: areas, which the eye compares, grow with the time.
        radius_px=2.5 + 8.5 * (node.time_ns / largest_ns) ** 0.5,
        about=f"{name_of(node)} {_about(node)}",
    )


def _number(number: int, node: ProfiledNode) -> Dot:
    """Return the dot of one of the largest nodes, labelled with its number in the list below the chart."""
    return Dot(x=_intensity(node), y=_rate(node), radius_px=0.0, text=str(number))


def _about(node: ProfiledNode) -> str:
    floor = f", {floor_ratio(node)} times its roofline bound" if node.floor_ns else ""
    return (
        f"({node.op_type}): {duration(node.time_ns)}{floor}; {operations(_rate(node))}/s, "
        f"{significant(_intensity(node))} FLOP a byte"
    )


def _legend(peak: MachinePeak | None, dots: Sequence[ProfiledNode]) -> tuple[tuple[str, str], ...]:
    entries = []
    if peak is not None and peak.flops_per_s and peak.bytes_per_s:
        most, moved = max(peak.flops_per_s), max(peak.bytes_per_s.values())
        n = amount(most, "thread")
        entries.append(
            ("roof", f"{n}, float32: {operations(peak.flops_per_s[most])}/s, {significant(moved / 1e9)} GB/s")
        )
        if most > 1 and 1 in peak.flops_per_s:
            entries.append(("roof single", f"1 thread: {operations(peak.flops_per_s[1])}/s"))
        if peak.int8_ops_per_s:
            most_int8 = operations(max(peak.int8_ops_per_s.values())).replace("FLOP", "OP")
            entries.append(("roof int8", f"int8: {most_int8}/s"))
    bounds = {n.bound for n in dots}
    entries += [(f"node {b}", f"bound by {b}") for b in ("compute", "memory", "overhead") if b in bounds]
    return tuple(entries)


def _short(rate: float) -> str:
    """Return a rate as a label for the axis: "10 G"."""
    for unit, scale in ((" T", 1e12), (" G", 1e9), (" M", 1e6), (" k", 1e3)):
        if rate >= scale:
            return f"{rate / scale:.0f}{unit}"
    return f"{rate:.0f}"
