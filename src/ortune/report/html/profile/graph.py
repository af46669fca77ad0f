"""The graph that ran, coloured by time."""

from __future__ import annotations

from collections import Counter

from markupsafe import Markup

from ortune.records import ProfiledNode, ProfileResult
from ortune.report import profile_words as words
from ortune.report.html import svg
from ortune.report.html.layered import Layout, layout
from ortune.report.html.profile import Given
from ortune.report.numbers import duration

ORDER = 65
TITLE = "Graph"
NOTE = (
    "The optimised graph, from what reads the inputs down; the stronger a node's colour, the more time. Drag: move; "
    "wheel or + and \u2212: zoom; \u2039 and \u203a: the most expensive, one after another."
)
MOST, COVERED = 300, 0.995
"""Nodes that are drawn: so many at most, or those that take so much of the time, in a graph of more than ``FEW``."""
FEW = 60
WIDE_PX, HIGH_PX = 168, 40
ACROSS_PX, DOWN_PX = 192, 72
MARGIN_PX = 12
LONGEST = 24
FAINTEST, STRONGEST = 0.05, 0.7


def content(given: Given) -> dict[str, object] | None:
    """The drawing; None where the graph that ran is not known."""
    result = given.result
    shared = Counter(node.name for node in result.nodes)
    nodes = {node.name: node for node in result.nodes if shared[node.name] == 1}
    if not any(node.reads for node in nodes.values()):
        return None
    ranked = _drawn(sorted(nodes.values(), key=lambda n: -n.time_ns))
    # The bodies of control flow stand below the node that runs them.
    reads = {n.name: (*n.reads, n.inside) if n.inside in nodes else n.reads for n in nodes.values()}
    found = layout(reads, {node.name for node in ranked})
    wide = (found.columns - 1) * ACROSS_PX + WIDE_PX + 2 * MARGIN_PX
    high = (found.rows - 1) * DOWN_PX + HIGH_PX + 2 * MARGIN_PX
    marks = [_edge(start, end, through, found) for start, end, through in found.edges]
    most = ranked[0].time_ns or 1.0
    marks += [_box(i, node, found, node.time_ns / most, result) for i, node in enumerate(ranked)]
    first = ranked[0]
    alt = f"{len(ranked)} nodes; the most expensive, {words.name_of(first)}, takes {duration(first.time_ns)}"
    return {
        "plot": svg.tag(
            "svg",
            svg.tag("g", *marks),
            class_="plot graph",
            role="img",
            aria_label=alt,
            width=wide,
            height=high,
        ),
        "kinds": list(dict.fromkeys(node.category for node in ranked)),
        "left_out": len(result.nodes) - len(ranked),
    }


def _drawn(ranked: list[ProfiledNode]) -> list[ProfiledNode]:
    """The most expensive: what takes no time that could be seen only makes the way longer."""
    whole, sum_ns = sum(node.time_ns for node in ranked), 0.0
    for i, node in enumerate(ranked[:MOST]):
        if i >= FEW and sum_ns >= COVERED * whole:
            return ranked[:i]
        sum_ns += node.time_ns
    return ranked[:MOST]


def _corner(name: str, found: Layout) -> tuple[float, float]:
    column, row = found.places[name]
    return MARGIN_PX + column * ACROSS_PX, MARGIN_PX + row * DOWN_PX


def _edge(start: str, end: str, through: bool, found: Layout) -> Markup:
    """A line from a node's lower side to the upper one of what reads it."""
    (x1, y1), (x2, y2) = _corner(start, found), _corner(end, found)
    x1, x2, y1 = x1 + WIDE_PX / 2, x2 + WIDE_PX / 2, y1 + HIGH_PX
    bend = min(60.0, (y2 - y1) / 2)
    path = f"M{x1:.0f} {y1:.0f}C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}"
    return svg.tag("path", d=path, class_="edge through" if through else "edge")


def _box(rank: int, node: ProfiledNode, found: Layout, heat: float, result: ProfileResult) -> Markup:
    x, y = _corner(node.name, found)
    name, beneath = words.name_of(node), words.beneath(node)
    about = f"{name}{f' ({beneath})' if beneath else ''}: {duration(node.time_ns)}"
    last = name.rpartition("/")[2] or name
    short = last if len(last) <= LONGEST else f"{last[: LONGEST // 2 - 1]}\u2026{last[-LONGEST // 2 :]}"
    return svg.tag(
        "g",
        svg.tag("title", f"{about}, {words.share(node.time_ns, result)}"),
        svg.tag("rect", x="0", y="0", width=WIDE_PX, height=HIGH_PX, rx=3, class_="paper"),
        svg.tag(
            "rect",
            x="0",
            y="0",
            width=WIDE_PX,
            height=HIGH_PX,
            rx=3,
            class_=f"heat c-{node.category}",
            fill_opacity=FAINTEST + (STRONGEST - FAINTEST) * heat**0.5,
        ),
        svg.tag("text", node.op_type[:LONGEST], x=7, y=16, class_="op"),
        svg.tag("text", duration(node.time_ns), x=WIDE_PX - 7, y=16, text_anchor="end"),
        svg.tag("text", short, x=7, y=32, class_="name"),
        transform=f"translate({x:.0f} {y:.0f})",
        data_rank=str(rank),
    )
