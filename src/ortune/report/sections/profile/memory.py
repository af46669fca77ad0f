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
NOTE = "Bytes in use after each node of one run, from left to right, and bytes that the arena holds."
HEIGHT_PX = 170
STEPS = 300
"""A chart holds so many steps at most: of what lies in one step, the largest."""
COLUMNS = (Column("value or other use", "name"), Column("size"))


def blocks(envelope: Envelope[ProfileResult]) -> list[Block]:
    """The chart, the figures, and all that is taken at the peak."""
    memory = envelope.result.memory
    if memory is None:
        return []
    names = words.names(envelope.result)
    owners: list[Row] = [
        (words.memory_owner(owner, names), words.size(owner.bytes)) for owner in memory.owners
    ]
    total = [Cell(text, tone="strong") for text in ("all together", words.size(words.memory_total(memory)))]
    return [
        *([_chart(memory, names)] if memory.points else []),
        Pairs(rows=_figures(memory, names)),
        table(COLUMNS, [*owners, total] if owners else [], title="Memory at the peak"),
    ]


def _figures(memory: MemoryProfile, names: Mapping[str, str]) -> list[tuple[str, str]]:
    rows = [
        ("in use at most", words.size(memory.peak_bytes)),
        ("at node", names.get(memory.peak_node, memory.peak_node)),
        ("held by the arena", "" if memory.held_bytes is None else words.size(memory.held_bytes)),
        ("resident at most", "" if memory.resident_bytes is None else words.size(memory.resident_bytes)),
        ("from", words.memory_source(memory)),
    ]
    return [(name, text) for name, text in rows if text]


def _chart(memory: MemoryProfile, names: Mapping[str, str]) -> Chart:
    arena = [p.held_bytes for p in memory.points if p.held_bytes is not None]
    most = max([memory.peak_bytes, *arena, *(p.in_use_bytes for p in memory.points), 1])
    unit = next((u for u in (2**30, 2**20, 2**10) if most >= u), 1)
    steps = _steps(memory.points)
    marks: list[Mark] = []
    for i, point in enumerate(steps):
        beyond = f", {words.size(point.held_bytes)} held" if point.held_bytes is not None else ""
        about = f"{names.get(point.node, point.node)}: {words.size(point.in_use_bytes)} in use{beyond}"
        marks.append(Box(x0=i, x1=i + 1, y1=point.in_use_bytes, hue="in-use", about=about))
    marks += [
        Segment(x0=i, x1=i + 1, y0=point.held_bytes, y1=point.held_bytes, hue="arena")
        for i, point in enumerate(steps)
        if point.held_bytes is not None
    ]
    alt = (
        f"Memory over {len(memory.points)} nodes; at most {words.size(memory.peak_bytes)} at "
        f"{names.get(memory.peak_node, memory.peak_node)}"
    )
    ends = ((0.0, "first node"), (float(len(steps)), f"last of {len(memory.points)}"))
    return Chart(
        alt=alt,
        marks=tuple(marks),
        height_px=HEIGHT_PX,
        x=Axis(high=len(steps), ticks=ends),
        y=zero_axis(most, lambda n: words.size(round(n)) if n else "0", unit),
        legend=(("in-use", "in use"), *((("arena", "held by the arena"),) if arena else ())),
    )


def _steps(points: Sequence[MemoryPoint]) -> list[MemoryPoint]:
    """Of neighbours the one with the most in use: the peak always stays."""
    if len(points) <= STEPS:
        return list(points)
    edges = [round(i * len(points) / STEPS) for i in range(STEPS + 1)]
    return [max(points[a:b], key=lambda p: p.in_use_bytes) for a, b in pairwise(edges)]
