"""Time by place in the hierarchy of names, as an icicle."""

from __future__ import annotations

from markupsafe import Markup

from ortune.records import LayerTime
from ortune.report import profile_words as words
from ortune.report.html import svg
from ortune.report.html.profile import Given
from ortune.report.numbers import duration

ORDER = 60
TITLE = "Layers"
NOTE = "The hierarchy that names of nodes hold: width is time, and what is below a layer lies within it."
ROW_PX = 24
NARROWEST = 0.002
MOST = 80


def content(given: Given) -> dict[str, object] | None:
    """The drawing and the same as a table, indented."""
    result = given.result
    if not result.layers:
        return None
    tree = words.layer_tree(result.layers)
    whole = max(result.wall_ns, sum(one.time_ns for one in tree.get("", []))) or 1.0
    marks: list[Markup] = []
    rows: list[dict[str, object]] = []
    ranks: list[tuple[int, float]] = []
    deepest = 0
    # Depth first, each with the place where it begins; what is drawn too narrow to see is left to the table.
    waiting = [(one, at, 0) for one, at in reversed(_side_by_side(tree.get("", []), 0.0, whole))]
    while waiting:
        one, at, level = waiting.pop()
        deepest = max(deepest, level)
        width = one.time_ns / whole
        name = one.layer.rpartition("/")[2]
        if width >= NARROWEST:
            marks.append(_place(one, name, at, width, level, words.share(one.time_ns, result)))
        ranks.append((level, -one.time_ns))
        rows.append(
            {
                "name": one.layer if level == 0 else name,
                "level": level,
                "time": duration(one.time_ns),
                "share": words.share(one.time_ns, result),
                "nodes": one.n_nodes,
            }
        )
        inner = _side_by_side(tree.get(one.layer, []), at, whole)
        waiting += [(below, start, level + 1) for below, start in reversed(inner)]
    # The deepest and cheapest are not listed: cut at its end, the list would lose whole branches.
    listed = set(sorted(range(len(rows)), key=ranks.__getitem__)[:MOST])
    alt = "Layers by time: " + ", ".join(
        f"{name.text} {part.text}" for name, _, part, _ in words.layers(result).rows
    )
    return {
        "plot": svg.picture(alt, marks, height=ROW_PX * (deepest + 1), kind="icicle"),
        "rows": [row for i, row in enumerate(rows) if i in listed],
        "rest": len(rows) - len(listed),
        "left_out": result.layers_left_out,
    }


def _side_by_side(layers: list[LayerTime], at: float, whole: float) -> list[tuple[LayerTime, float]]:
    found = []
    for one in layers:
        found.append((one, at))
        at += one.time_ns / whole
    return found


def _place(one: LayerTime, name: str, at: float, width: float, level: int, share: str) -> Markup:
    """A box that clips its own text."""
    title = svg.tag("title", f"{one.layer}: {duration(one.time_ns)}, {share}, {one.n_nodes} nodes")
    box = svg.tag("rect", x="0", y="0", width="100%", height=ROW_PX - 2, class_=f"layer l{level % 3}")
    parts = [title, box]
    if width > 0.02:
        parts.append(svg.tag("text", name, x=5, y=15))
    return svg.tag(
        "svg",
        *parts,
        x=svg.share(at),
        y=ROW_PX * level,
        width=svg.share(min(width, 1.0 - at)),
        height=ROW_PX - 2,
    )
