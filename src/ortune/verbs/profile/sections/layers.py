"""Time by place in the hierarchy of names, as an icicle chart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ortune.records import Envelope, LayerTime, ProfileResult
from ortune.show import profile_nodes
from ortune.show.chart import Axis, Box, Chart
from ortune.show.document import Block, Cell, Column, Fold, Row, table
from ortune.show.numbers import duration

ORDER = 60
TITLE = "Layers"
NOTE = "The hierarchy in the node names. Width is time; lower rows are parts of the layer above."
ROW_PX = 24
NARROWEST = 0.002
MOST = 80
COLUMNS = (Column("layer", "name"), Column("time"), Column("share"), Column("nodes"))
Place = tuple[LayerTime, float, int]
"""A layer with its start time in nanoseconds and its depth in the hierarchy."""


def blocks(envelope: Envelope[ProfileResult]) -> list[Block]:
    """Return the icicle chart, and an indented table of the same layers."""
    result = envelope.result
    layers = profile_nodes.run_layers(result)
    if not layers:
        return []
    tree = profile_nodes.layer_tree(layers)
    places = list(_places(tree))
    whole = max(profile_nodes.run_ns(result), sum(one.time_ns for one in tree.get("", []))) or 1.0
    deepest = 1 + max(level for *_, level in places)
    alt = "Layers by time: " + ", ".join(
        f"{name.text} {part.text}" for name, _, part, _ in profile_nodes.layers(result).rows
    )
    chart = Chart(
        alt=alt,
        # What is drawn too narrow to see is left to the table.
        marks=tuple(_box(p, result) for p in places if p[0].time_ns >= NARROWEST * whole),
        height_px=ROW_PX * deepest,
        x=Axis(high=whole),
        y=Axis(low=-deepest, high=0.0),
    )
    return [chart, _table(places, result)]


def _places(tree: Mapping[str, Sequence[LayerTime]]) -> Iterator[Place]:
    """Yield layers depth first, with siblings next to each other within their parent."""
    waiting = [(one, start, 0) for one, start in reversed(_side_by_side(tree.get("", []), 0.0))]
    while waiting:
        one, at, level = waiting.pop()
        yield one, at, level
        inner = _side_by_side(tree.get(one.layer, []), at)
        waiting += [(below, start, level + 1) for below, start in reversed(inner)]


def _side_by_side(layers: Sequence[LayerTime], at: float) -> list[tuple[LayerTime, float]]:
    places = []
    for one in layers:
        places.append((one, at))
        at += one.time_ns
    return places


def _box(place: Place, result: ProfileResult) -> Box:
    one, at, level = place
    share = profile_nodes.share(one.time_ns, result)
    return Box(
        x0=at,
        x1=at + one.time_ns,
        y0=-level - 0.92,
        y1=-level,
        hue=f"layer{level % 3}",
        text=one.layer.rpartition("/")[2],
        about=f"{one.layer}: {duration(one.time_ns)}, {share}, {one.n_nodes} nodes",
    )


def _table(places: Sequence[Place], result: ProfileResult) -> Fold:
    """Return the table of layers, which omits the deepest and cheapest layers, so every branch remains."""
    ranks = [(level, -one.time_ns) for one, _, level in places]
    listed = set(sorted(range(len(places)), key=ranks.__getitem__)[:MOST])
    rows: list[Row] = [
        [
            Cell(one.layer if level == 0 else one.layer.rpartition("/")[2], level=level),
            duration(one.time_ns),
            profile_nodes.share(one.time_ns, result),
            str(one.n_nodes),
        ]
        for i, (one, _, level) in enumerate(places)
        if i in listed
    ]
    rest = len(places) - len(listed)
    notes = [f"{rest} more are in the JSON document."] if rest else []
    if result.layers_left_out:
        notes.append(
            f"The {result.layers_left_out} deepest and cheapest layers are omitted; all nodes are included."
        )
    return Fold(title="The same as a table", blocks=[table(COLUMNS, rows, notes=notes)])
