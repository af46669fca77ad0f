"""Layer hierarchy in node names, as exporters write it: "/encoder/layer.0/attention/MatMul"."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.records import LayerTime, ProfiledNode

DEEPEST = 6
MOST = 400
"""Maximum number of layers shown in addition to the outermost layers."""
COVERED = 0.05
"""Minimum fraction of the time in layers for names to form a hierarchy; optimizers may add a slash to a single name."""


def layer_of(names: Sequence[str]) -> str:
    """Return the layer path that the original names of a node have in common; "" if there is none."""
    paths = [[part for part in name.split("/") if part][:-1] for name in names if name]
    if not paths:
        return ""
    common = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return "/".join(common)


def layers(nodes: Sequence[ProfiledNode]) -> tuple[tuple[LayerTime, ...], int]:
    """Sum time by layer, parents before children, most expensive first.

    A layer that contains only one other layer is omitted. If there are more than ``MOST`` inner layers, the deepest are
    dropped, the cheapest of each level first. No layers are returned if less than ``COVERED`` of the time is in layers.

    Returns:
        The layers, and the number of dropped layers.
    """
    total = sum(node.time_ns for node in nodes)
    if sum(node.time_ns for node in nodes if node.layer) < COVERED * total:
        return (), 0
    times: dict[tuple[str, ...], list[float]] = {}
    for node in nodes:
        parts = tuple(node.layer.split("/")) if node.layer else ()
        for depth in range(1, min(len(parts), DEEPEST) + 1):
            times.setdefault(parts[:depth], []).append(node.time_ns)
    inner: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for place in times:
        inner.setdefault(place[:-1], []).append(place)
    places: list[LayerTime] = []
    levels: list[int] = []  # number of shown layers around each

    def walk(place: tuple[str, ...], level: int) -> None:
        for part in sorted(inner.get(place, []), key=lambda p: (-sum(times[p]), p)):
            only = inner.get(part, [])
            # A layer with all of its nodes in one inner layer adds no information.
            is_own = not (len(only) == 1 and len(times[only[0]]) == len(times[part]))
            if is_own:
                levels.append(level)
                places.append(
                    LayerTime(
                        layer="/".join(part),
                        depth=len(part),
                        n_nodes=len(times[part]),
                        time_ns=sum(times[part]),
                        share_ratio=sum(times[part]) / total if total else 0.0,
                    )
                )
            walk(part, level + is_own)

    walk((), 0)
    inner_ones = [i for i, level in enumerate(levels) if level]
    dropped = set(sorted(inner_ones, key=lambda i: (levels[i], -places[i].time_ns))[MOST:])
    return tuple(one for i, one in enumerate(places) if i not in dropped), len(dropped)
