"""Memory over the nodes of one run: in use, reserved by the arena, and the owners at the peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from ortune.printable import amount
from ortune.records import Envelope, MemoryPoint, MemoryProfile, ProfileResult
from ortune.show.chart import Axis, Box, Chart, Mark, Segment, zero_axis
from ortune.show.document import Block, Cell, Column, Pairs, Row, table
from ortune.show.memory_words import size
from ortune.show.profile_nodes import names
from ortune.verbs.profile.memory_words import memory_owner, memory_source, memory_total

ORDER = 80
TITLE = "Memory"
NOTE = "Bytes in use after each node of one run, from left to right, and bytes that the arena holds."
HEIGHT_PX = 170
STEPS = 300
"""Maximum number of steps in a chart; each step shows the maximum of its values."""
COLUMNS = (Column("value or other use", "name"), Column("size"))


def blocks(envelope: Envelope[ProfileResult]) -> list[Block]:
    """Return the chart, the peak and arena sizes, and a table of all memory at the peak by owner."""
    memory = envelope.result.memory
    if memory is None:
        return []
    called = names(envelope.result)
    owners: list[Row] = [(memory_owner(owner, called), size(owner.bytes)) for owner in memory.owners]
    total = [Cell(text, tone="strong") for text in ("all together", size(memory_total(memory)))]
    return [
        *([_chart(memory, called)] if memory.points else []),
        Pairs(rows=_figures(memory, called)),
        table(COLUMNS, [*owners, total] if owners else [], title="Memory at the peak"),
    ]


def _figures(memory: MemoryProfile, called: Mapping[str, str]) -> list[tuple[str, str]]:
    in_run = [point.in_use_bytes for point in memory.points]
    held_in_run = [point.held_bytes for point in memory.points if point.held_bytes is not None]
    held = "" if memory.held_bytes is None else _over_runs(memory.held_bytes, held_in_run)
    rows = [
        ("in use at most", _over_runs(memory.peak_bytes, in_run)),
        ("at node", called.get(memory.peak_node, memory.peak_node)),
        ("held by the arena", held),
        ("resident at most", "" if memory.resident_bytes is None else size(memory.resident_bytes)),
        ("from", memory_source(memory)),
    ]
    return [(name, text) for name, text in rows if text]


def _over_runs(most: int, in_run: Sequence[int]) -> str:
    """Return the largest size over all runs, and the size in the charted run if it differs, as text."""
    shown = size(max(in_run, default=most))
    return size(most) if shown == size(most) else f"{size(most)} over all runs, {shown} in the run shown"


def _chart(memory: MemoryProfile, called: Mapping[str, str]) -> Chart:
    arena = [p.held_bytes for p in memory.points if p.held_bytes is not None]
    most = max([memory.peak_bytes, *arena, *(p.in_use_bytes for p in memory.points), 1])
    unit = next((u for u in (2**30, 2**20, 2**10) if most >= u), 1)
    steps = _steps(memory.points)
    marks: list[Mark] = []
    for i, point in enumerate(steps):
        beyond = f", {size(point.held_bytes)} held" if point.held_bytes is not None else ""
        about = f"{called.get(point.node, point.node)}: {size(point.in_use_bytes)} in use{beyond}"
        marks.append(Box(x0=i, x1=i + 1, y1=point.in_use_bytes, hue="in-use", about=about))
    marks += [
        Segment(x0=i, x1=i + 1, y0=point.held_bytes, y1=point.held_bytes, hue="arena")
        for i, point in enumerate(steps)
        if point.held_bytes is not None
    ]
    alt = (
        f"Memory over {amount(len(memory.points), 'node')}; at most {size(memory.peak_bytes)} at "
        f"{called.get(memory.peak_node, memory.peak_node)}"
    )
    ends = ((0.0, "first node"), (float(len(steps)), f"last of {len(memory.points)}"))
    return Chart(
        alt=alt,
        marks=tuple(marks),
        height_px=HEIGHT_PX,
        x=Axis(high=len(steps), ticks=ends),
        y=zero_axis(most, lambda n: size(round(n)) if n else "0", unit),
        legend=(("in-use", "in use"), *((("arena", "held by the arena"),) if arena else ())),
    )


def _steps(points: Sequence[MemoryPoint]) -> list[MemoryPoint]:
    """Return for each step the point with the most memory in use, so the peak is always included."""
    if len(points) <= STEPS:
        return list(points)
    edges = [round(i * len(points) / STEPS) for i in range(STEPS + 1)]
    return [max(points[a:b], key=lambda p: p.in_use_bytes) for a, b in pairwise(edges)]
