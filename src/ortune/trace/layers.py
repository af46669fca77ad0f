"""The hierarchy that exporters leave in the names of nodes: "/encoder/layer.0/attention/MatMul"."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.records import LayerTime, ProfiledNode

DEEPEST = 6
MOST = 400


def layer_of(names: Sequence[str]) -> str:
    """What the names of one node's origins have in common, without the nodes themselves; "" without a hierarchy."""
    paths = [[part for part in name.split("/") if part][:-1] for name in names if name]
    if not paths:
        return ""
    common = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return "/".join(common)


def layers(nodes: Sequence[ProfiledNode]) -> tuple[LayerTime, ...]:
    """Time of every place in the hierarchy, parents before their parts and the dearest first.

    A place that holds nothing but one other place is left out: it tells nothing.
    """
    total = sum(node.time_ns for node in nodes)
    times: dict[tuple[str, ...], list[float]] = {}
    for node in nodes:
        parts = tuple(node.layer.split("/")) if node.layer else ()
        for depth in range(1, min(len(parts), DEEPEST) + 1):
            times.setdefault(parts[:depth], []).append(node.time_ns)
    inner: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for place in times:
        inner.setdefault(place[:-1], []).append(place)
    found: list[LayerTime] = []

    def walk(place: tuple[str, ...]) -> None:
        for part in sorted(inner.get(place, []), key=lambda p: (-sum(times[p]), p)):
            only = inner.get(part, [])
            if not (len(only) == 1 and len(times[only[0]]) == len(times[part])):
                found.append(
                    LayerTime(
                        layer="/".join(part),
                        depth=len(part),
                        n_nodes=len(times[part]),
                        time_ns=sum(times[part]),
                        share_ratio=sum(times[part]) / total if total else 0.0,
                    )
                )
            walk(part)

    walk(())
    return tuple(found[:MOST])
