"""Memory over the nodes of one run: in use, held by the arena, and who holds the peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from ortune.records import Envelope, MemoryPoint, MemoryProfile, ProfileResult
from ortune.report import profile_words as words
from ortune.report.chart import Axis, Box, Chart, Mark, Segment, zero_axis
from ortune.report.document import Block, Cell, Column, Pairs, Row, table

ORDER = 80
TITLE = "Memory"
NOTE = (
    "Bytes in use after each node of one run, from left to right, and what the arena holds from the system."
)
HEIGHT_PX = 170
STEPS = 300
"""A chart holds so many steps at most: of what lies in one step, the largest."""
COLUMNS = (Column("value, or what else", "name"), Column("size"))


def blocks(envelope: Envelope[ProfileResult]) -> list[Block]:
    """The chart, the figures, and all that is taken at the peak."""
    found = envelope.result.memory
    if found is None:
        return []
    called = words.names(envelope.result)
    owners: list[Row] = [
        (words.memory_owner(owner, called), words.size(owner.bytes)) for owner in found.owners
    ]
    total = [Cell(text, tone="strong") for text in ("all together", words.size(words.memory_total(found)))]
    return [
        *([_chart(found, called)] if found.points else []),
        Pairs(rows=_figures(found, called)),
        table(COLUMNS, [*owners, total] if owners else [], title="What holds memory at the peak"),
    ]


def _figures(found: MemoryProfile, called: Mapping[str, str]) -> list[tuple[str, str]]:
    rows = [
        ("in use at most", words.size(found.peak_bytes)),
        ("at node", called.get(found.peak_node, found.peak_node)),
        ("held by the arena", "" if found.held_bytes is None else words.size(found.held_bytes)),
        ("resident at most", "" if found.resident_bytes is None else words.size(found.resident_bytes)),
        ("from", words.memory_source(found)),
    ]
    return [(name, text) for name, text in rows if text]


def _chart(found: MemoryProfile, called: Mapping[str, str]) -> Chart:
    held = [p.held_bytes for p in found.points if p.held_bytes is not None]
    most = max([found.peak_bytes, *held, *(p.in_use_bytes for p in found.points), 1])
    unit = next((u for u in (2**30, 2**20, 2**10) if most >= u), 1)
    steps = _steps(found.points)
    marks: list[Mark] = []
    for i, point in enumerate(steps):
        beyond = f", {words.size(point.held_bytes)} held" if point.held_bytes is not None else ""
        about = f"{called.get(point.node, point.node)}: {words.size(point.in_use_bytes)} in use{beyond}"
        marks.append(Box(x0=i, x1=i + 1, y1=point.in_use_bytes, hue="in-use", about=about))
    marks += [
        Segment(x0=i, x1=i + 1, y0=point.held_bytes, y1=point.held_bytes, hue="arena")
        for i, point in enumerate(steps)
        if point.held_bytes is not None
    ]
    alt = (
        f"Memory over {len(found.points)} nodes; at most {words.size(found.peak_bytes)} at "
        f"{called.get(found.peak_node, found.peak_node)}"
    )
    ends = ((0.0, "first node"), (float(len(steps)), f"last of {len(found.points)}"))
    return Chart(
        alt=alt,
        marks=tuple(marks),
        height_px=HEIGHT_PX,
        x=Axis(high=len(steps), ticks=ends),
        y=zero_axis(most, lambda n: words.size(round(n)) if n else "0", unit),
        legend=(("in-use", "in use"), *((("arena", "held by the arena"),) if held else ())),
    )


def _steps(points: Sequence[MemoryPoint]) -> list[MemoryPoint]:
    """Of neighbours the one with the most in use: the peak always stays."""
    if len(points) <= STEPS:
        return list(points)
    edges = [round(i * len(points) / STEPS) for i in range(STEPS + 1)]
    return [max(points[a:b], key=lambda p: p.in_use_bytes) for a, b in pairwise(edges)]
