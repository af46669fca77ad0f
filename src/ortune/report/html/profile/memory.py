"""Memory over the nodes of one run: in use, held by the arena, and who holds the peak."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from markupsafe import Markup

from ortune.records import MemoryPoint, MemoryProfile
from ortune.report import profile_words as words
from ortune.report.html import svg
from ortune.report.html.profile import Given

ORDER = 80
TITLE = "Memory"
NOTE = (
    "Bytes in use after each node of one run, from left to right, and what the arena holds from the system."
)
HEIGHT = 170
STEPS = 600
TIPS = 150
"""A drawing holds so many steps and notes at most: of what lies in one step, the largest."""


def content(given: Given) -> dict[str, object] | None:
    """The drawing, the figures, and all that is taken at the peak."""
    found = given.result.memory
    if found is None:
        return None
    called = words.names(given.result)
    peak_node = called.get(found.peak_node, found.peak_node)
    figures = [("in use at most", words.size(found.peak_bytes)), ("at node", peak_node)]
    if found.held_bytes is not None:
        figures.append(("held by the arena", words.size(found.held_bytes)))
    if found.resident_bytes is not None:
        figures.append(("resident at most", words.size(found.resident_bytes)))
    figures.append(("from", words.memory_source(found)))
    return {
        "figure": _figure(found, called) if found.points else None,
        "figures": [(name, text) for name, text in figures if text],
        "owners": [(words.memory_owner(owner, called), words.size(owner.bytes)) for owner in found.owners],
        "total": words.size(words.memory_total(found)),
        "n_points": len(found.points),
    }


def _figure(found: MemoryProfile, called: Mapping[str, str]) -> dict[str, Markup]:
    held = [p.held_bytes for p in found.points if p.held_bytes is not None]
    scale = _scale(max([found.peak_bytes, *held, *(p.in_use_bytes for p in found.points), 1]))
    steps = _steps(found.points, STEPS)
    marks = [svg.level(scale, t, "grid") for t in scale.ticks]
    if held:
        marks.append(_path(steps, lambda p: p.held_bytes or 0, scale, "held", closed=False))
    marks.append(_path(steps, lambda p: p.in_use_bytes, scale, "in-use", closed=True))
    tips = _steps(found.points, TIPS)
    for i, point in enumerate(tips):
        beyond = f", {words.size(point.held_bytes)} held" if point.held_bytes is not None else ""
        node = called.get(point.node, point.node)
        title = svg.tag("title", f"{node}: {words.size(point.in_use_bytes)} in use{beyond}")
        place = {"x": svg.share(i / len(tips)), "width": svg.share(1 / len(tips))}
        marks.append(svg.tag("rect", title, **place, y="0", height="100%", class_="spot"))
    alt = (
        f"Memory over {len(found.points)} nodes; at most {words.size(found.peak_bytes)} at "
        f"{called.get(found.peak_node, found.peak_node)}"
    )
    return {
        "side": svg.side_labels(
            scale, [words.size(round(t)) if t else "0" for t in scale.ticks], height=HEIGHT
        ),
        "plot": svg.picture(alt, marks, height=HEIGHT, kind="memory"),
    }


def _scale(most: int) -> svg.Scale:
    """From zero, with ticks at round numbers of the unit."""
    unit = next((u for u in (2**30, 2**20, 2**10) if most >= u), 1)
    step = next(s * 10**e for e in range(20) for s in (1, 2, 5) if most / unit <= 4 * s * 10**e)
    ticks = tuple(float(unit * step * i) for i in range(5) if unit * step * i <= most * 1.02)
    return svg.Scale(low=0.0, high=most * 1.04, ticks=ticks)


def _steps(points: Sequence[MemoryPoint], most: int) -> list[MemoryPoint]:
    """At most so many points, of neighbours the one with the most in use: the peak always stays."""
    if len(points) <= most:
        return list(points)
    edges = [round(i * len(points) / most) for i in range(most + 1)]
    return [max(points[a:b], key=lambda p: p.in_use_bytes) for a, b in pairwise(edges)]


def _path(
    steps: Sequence[MemoryPoint],
    value: Callable[[MemoryPoint], int],
    scale: svg.Scale,
    kind: str,
    *,
    closed: bool,
) -> Markup:
    """Steps as one path that stretches with its box; the stroke keeps its width."""
    heights = [round(1000 * (1 - scale.at(value(p)))) for p in steps]
    path = "M0,1000V" if closed else "M0,"
    path += "".join(f"{'V' if i else ''}{y}H{i + 1}" for i, y in enumerate(heights))
    path += "V1000" if closed else ""
    line = svg.tag("path", d=path, vector_effect="non-scaling-stroke", class_=kind)
    return svg.tag(
        "svg", line, viewBox=f"0 0 {len(steps)} 1000", preserveAspectRatio="none", width="100%", height="100%"
    )
