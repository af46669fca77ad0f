"""Dimensions that a file declares as dynamic although a node accepts only one size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from ortune.graph.model.graphs import own_name
from ortune.graph.shapes.operators import visit
from ortune.graph.shapes.symbols import feedable, input_sizes
from ortune.graph.shapes.walk import Walk


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSize:
    """A dynamic dimension of an input, with the only size that works.

    Attributes:
        dimension: The symbol of the dimension, or ``input[axis]`` if it has none.
        size: The only size that works.
        node: The first node that accepts no other size.
    """

    dimension: str
    size: int
    node: ir.Node

    @property
    def sentence(self) -> str:
        """Sentence for users that states the dimension, its only size and the node."""
        name = own_name(self.node) or str(self.node.outputs[0].name)
        return (
            f"{self.dimension} is dynamic in the file, but {self.node.op_type} node {name!r} works only with "
            f"{self.dimension}={self.size}"
        )


def held_sizes(model: ir.Model) -> dict[str, HeldSize]:
    """Return the dynamic input dimensions for which the graph accepts only one size, keyed by symbol."""
    # Of two dimensions that must be equal, the one with its own size is kept.
    walk = Walk(keep=lambda symbol: 0, defaults=False)
    for value in feedable(model):
        shape = input_sizes(value)
        if shape is not None:
            walk.shapes[value] = shape
            walk.symbols |= {symbol for size in shape for symbol, _ in size.terms}
    for node in model.graph:
        visit(walk, node)
    if walk.clash:
        return {}
    return {symbol: held for symbol in sorted(walk.symbols) if (held := _held_size(walk, symbol))}


def wrong_sizes(model: ir.Model, sizes: Mapping[str, int]) -> list[HeldSize]:
    """Return the dimensions for which ``sizes`` contains a different size than the only one that works."""
    return [
        held
        for name, held in held_sizes(model).items()
        if any(sizes.get(key, held.size) != held.size for key in (name, held.dimension))
    ]


def _held_size(walk: Walk, symbol: str) -> HeldSize | None:
    expression = walk.bound.get(symbol)
    size = None if expression is None else walk.substitute(expression).value
    if expression is None or size is None:
        return None
    # The constraint of a dimension that equals another one is recorded under the other one.
    at = symbol
    while at not in walk.held and expression is not None and len(expression.terms) == 1:
        at = expression.terms[0][0]
        expression = walk.bound.get(at)
    node = walk.held.get(at)
    return None if node is None else HeldSize(dimension=symbol, size=size, node=node)
