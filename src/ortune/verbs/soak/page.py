"""The page of a soak: its verdict, and a chart of memory over time with one line for each process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ortune.records import Envelope
from ortune.show.chart import Axis, Box, Chart, Dot, Mark, Segment, value_axis, zero_axis
from ortune.show.document import Block, Document, Head, Section
from ortune.show.machine_words import origin
from ortune.show.numbers import duration, memory
from ortune.verbs.soak import words
from ortune.verbs.soak.result import PointRow, SoakResult

HEIGHT_PX = 240
EDGE_SHARE = 0.06
"""Width of the phases before and after the calls in the chart, as a fraction of the width of the calls."""
HUES = (
    *(f"t{number}" for number in range(8)),
    "c-thread-wait",
    "c-control-flow",
    "c-device-copies",
    "t-other",
)
LARGE = {
    "flat": "Memory is flat",
    "bounded": "Memory is bounded",
    "growing": "Memory grows",
    "fragmented": "Memory is fragmented",
    "killed": "Killed",
    "undecided": "Inconclusive",
}


def document(envelope: Envelope[SoakResult]) -> Document:
    """Return the document for a page: the terminal's document with charts and a head."""
    result, plain = envelope.result, words.document(envelope)
    assert result is not None
    tone = words.TONES.get(result.verdict, "bad")
    head = Head(
        unit=LARGE[result.verdict], tone=tone, origin=origin(envelope.host, result.side.runtime.build)
    )
    return replace(plain.with_below_lines(*charts(result)), head=head)


def charts(result: SoakResult) -> list[Block]:
    """Return charts of memory: of the unchanged model over time and, if measured, of the changes over calls."""
    arms: dict[str, list[PointRow]] = {}
    for point in result.points:
        arms.setdefault(point.arm, []).append(point)
    own = [points for arm, points in arms.items() if arm.startswith(words.AS_IS)]
    changes = [points for arm, points in arms.items() if arm.startswith(words.EXPERIMENT)]
    found: list[Block] = []
    if any(len(points) > 1 for points in own):
        note = words.PAGE_NOTE if own[0][-1].heap_bytes is None else words.IN_PAGE_NOTE
        found.append(Section(title="Memory over time", note=note, blocks=[_over_time(result, own)]))
    if any(len(points) > 1 for points in changes):
        found.append(Section(title="Changes", note=words.CHANGES_NOTE, blocks=[_changes(changes)]))
    return found


def _over_time(result: SoakResult, own: Sequence[Sequence[PointRow]]) -> Chart:
    """Return a chart of memory over time, with a line for each process of the unchanged model."""
    end_ns = float(max(point.active_ns for points in own for point in points)) or 1.0
    edge_ns = EDGE_SHARE * end_ns
    before, after = result.base_bytes, result.released_bytes
    sizes = [float(point.held_bytes) for points in own for point in points]
    y = zero_axis(max([*sizes, before or 0.0, after or 0.0]), memory, 2**20)
    settled_ns = _settled_ns(result, own[0])
    phases = [(-edge_ns, 0.0, "load"), (0.0, settled_ns, "first calls"), (settled_ns, end_ns, "later calls")]
    phases += [(end_ns, end_ns + edge_ns, "release")] if after is not None else []
    marks: list[Mark] = [
        Box(
            x0=start,
            x1=end,
            y0=y.low,
            y1=y.high,
            hue=f"phase odd{i % 2}",
            about=name,
            text=name if 0 <= start < end_ns else "",
        )  # the edges are too narrow for theirs
        for i, (start, end, name) in enumerate(phases)
        if end > start
    ]
    for number, points in enumerate(own):
        spots = [(float(point.active_ns), float(point.held_bytes)) for point in points]
        if before is not None:
            spots.insert(0, (-edge_ns, before))
        if after is not None:
            spots.append((end_ns + edge_ns, after))
        marks += _line(spots, HUES[number % len(HUES)])
        marks.append(Dot(x=spots[-1][0], y=spots[-1][1], hue=HUES[number % len(HUES)], about=points[0].arm))
    ticks = ((0.0, "loaded"), (end_ns, duration(end_ns)))
    return Chart(
        alt=words.headline(result),
        marks=tuple(marks),
        height_px=HEIGHT_PX,
        x=Axis(low=-edge_ns, high=end_ns + edge_ns, ticks=ticks),
        y=y,
        legend=tuple((HUES[i % len(HUES)], points[0].arm) for i, points in enumerate(own)),
    )


def _settled_ns(result: SoakResult, points: Sequence[PointRow]) -> float:
    """Return the active time of a process in nanoseconds from which on growth is measured."""
    call = result.growth.from_call if result.growth is not None else 0.0
    return float(next((point.active_ns for point in points if point.calls > call), points[-1].active_ns))


def _changes(changes: Sequence[Sequence[PointRow]]) -> Chart:
    """Return a chart of memory over the number of calls, with a line for each change."""
    sizes = [point.held_bytes / 2**20 for points in changes for point in points]
    calls = float(max(point.calls for points in changes for point in points)) or 1.0
    y = value_axis(sizes, lambda value: f"{value:g} MiB")
    marks: list[Mark] = []
    legend = []
    for number, points in enumerate(changes):
        name, hue = words.arm_name(points[0].arm), HUES[number % len(HUES)]
        spots = [(float(point.calls), point.held_bytes / 2**20) for point in points]
        marks += _line(spots, hue)
        marks.append(Dot(x=spots[-1][0], y=spots[-1][1], hue=hue, about=name))
        legend.append((hue, name))
    ticks = ((0.0, "loaded"), (calls, words.calls(int(calls))))
    alt = "; ".join(
        f"{words.arm_name(points[0].arm)}: {memory(points[-1].held_bytes, 4)}" for points in changes
    )
    return Chart(
        alt=alt,
        marks=tuple(marks),
        height_px=HEIGHT_PX,
        x=Axis(high=calls * (1 + EDGE_SHARE), ticks=ticks),
        y=y,
        legend=tuple(legend),
    )


def _line(spots: Sequence[tuple[float, float]], hue: str) -> list[Mark]:
    return [Segment(x0=a[0], x1=b[0], y0=a[1], y1=b[1], hue=hue) for a, b in pairwise(spots)]
