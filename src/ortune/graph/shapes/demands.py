"""Collection of a graph's constraints on input sizes, in a single walk."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx_ir as ir

from ortune.graph.shapes.operators import visit
from ortune.graph.shapes.symbols import Size
from ortune.graph.shapes.walk import SizeFacts, Walk


def study(
    model: ir.Model,
    sizes: Mapping[str, tuple[Size, ...] | None],
    solved: Mapping[str, int],
    keep: Callable[[str], int],
) -> SizeFacts:
    """Walk the graph once and return its constraints on input sizes.

    Args:
        model: A model; its large weights are not read.
        sizes: Declared shape of each fed input.
        solved: Symbols with a known size.
        keep: Returns a symbol's priority to stay free: of two equal symbols, the one with the lower priority is
            expressed by the other.
    """
    walk = Walk(keep=keep, bound={s: Size((), n) for s, n in solved.items()})
    for value in model.graph.inputs:
        shape = sizes.get(value.name or "")
        if shape is not None:
            walk.shapes[value] = shape
            walk.symbols |= {s for d in shape for s, _ in d.terms}
        if (value.name or "") in sizes:
            walk.sources[value] = value.name or ""
    for node in model.graph:
        visit(walk, node)
        if walk.clash:
            break
    return SizeFacts(
        solution={s: walk.substitute(e) for s, e in walk.bound.items() if s not in solved},
        rows=walk.rows,
        limits=tuple(walk.limits),
        held=walk.held,
        clash=walk.clash,
    )
