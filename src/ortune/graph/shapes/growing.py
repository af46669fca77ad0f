"""Inputs that grow from call to call, such as a key-value cache to which each step appends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from ortune.graph.attributes import int_of
from ortune.graph.model.graphs import op_set
from ortune.graph.nodes import is_op
from ortune.graph.shapes.operators import visit
from ortune.graph.shapes.symbols import Size, feedable, input_sizes, size_of
from ortune.graph.shapes.walk import Walk

_MOVES = op_set("Identity Cast Transpose Reshape Squeeze Unsqueeze Gather Slice Split")
"""Operators that pass on the elements of their first input."""
_PASTS = {
    ("", "Attention"): (4, 5),
    ("com.microsoft", "Attention"): (4,),
    ("com.microsoft", "DecoderMaskedMultiHeadAttention"): (5, 6),
    ("com.microsoft", "GroupQueryAttention"): (3, 4),
    ("com.microsoft", "MultiHeadAttention"): (6, 7),
}
"""Inputs of attention operators that are a past key-value cache; their outputs from the second on are the present."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingInput:
    """An input that each step extends along a dynamic dimension.

    Attributes:
        name: The input.
        dimension: The dynamic dimension along which the input grows.
        output: The longer output, which is the input of the next step; "" if the model does not return it.
    """

    name: str
    dimension: str
    output: str


def growing_inputs(model: ir.Model) -> tuple[GrowingInput, ...]:
    """Return the inputs that are extended along a dynamic dimension, in the order of the file."""
    shapes = {value: shape for value in feedable(model) if (shape := input_sizes(value)) is not None}
    symbols = {
        value: {
            size.terms[0][0] for size in shape if size.terms and size == Size.from_symbol(size.terms[0][0])
        }
        for value, shape in shapes.items()
    }
    appended = [
        (source, node, longer) for source in symbols if symbols[source] for node, longer in _appending(source)
    ]
    if not appended:
        return ()
    walk = Walk(keep=lambda symbol: 1, defaults=False)
    walk.shapes |= shapes
    walk.symbols |= {symbol for shape in shapes.values() for size in shape for symbol, _ in size.terms}
    for node in model.graph:
        visit(walk, node)
    found: dict[str, GrowingInput] = {}
    for source, node, longer in appended:
        for symbol in sorted(symbols[source] - walk.bound.keys()):
            output = _extended(walk, node, longer, symbol)
            if output is not None and str(source.name) not in found:
                found[str(source.name)] = GrowingInput(name=str(source.name), dimension=symbol, output=output)
    return tuple(found[name] for name in (str(v.name) for v in shapes) if name in found)


def growing_dimensions(model: ir.Model) -> frozenset[str]:
    """Return the dynamic dimensions that grow, and those of input sizes that contain a growing dimension."""
    growing = {item.dimension for item in growing_inputs(model)}
    named = {
        str(getattr(dim, "value", "") or "")
        for value in feedable(model)
        for dim in (value.shape or ())
        if not isinstance(dim, int) and growing & {symbol for symbol, _ in size_of(dim, "").terms}
    }
    return frozenset(growing | named)


def _appending(source: ir.Value) -> Iterator[tuple[ir.Node, ir.Value]]:
    """Yield the nodes that append to a value, directly or after nodes that only move it, and the longer values."""
    seen, waiting = {source}, [source]
    while waiting:
        value = waiting.pop()
        for node, place in value.uses():
            pasts = _PASTS.get((node.domain, node.op_type), ())
            if is_op(node, "Concat"):
                yield node, node.outputs[0]
            elif place in pasts and len(node.outputs) > (present := 1 + pasts.index(place)):
                yield node, node.outputs[present]
            elif not node.domain and node.op_type in _MOVES and place == 0:
                new = [out for out in node.outputs if out not in seen]
                seen.update(new)
                waiting += new


def _extended(walk: Walk, node: ir.Node, value: ir.Value, symbol: str) -> str | None:
    """Return the graph output that contains ``value``; "" if there is none, None if ``node`` extends nothing."""
    if is_op(node, "Concat"):
        axis = int_of(node, "axis", 0)
        parts = [walk.shape(value) for value in node.inputs]
        if any(part is None or not -len(part) <= axis < len(part) for part in parts):
            return None
        along = [part[axis] for part in parts if part is not None]
        own, *others = along
        # The appended part comes last. A Concat of two parts of the same dimension, such as a doubled batch, is not
        # growth.
        if (
            own != Size.from_symbol(symbol)
            or not others
            or any(s is None or symbol in dict(s.terms) for s in others)
        ):
            return None
    longer = list(_returned(value))
    sizes = [[size_of(dim, "?") for dim in out.shape.dims] for out in longer if out.shape is not None]
    if any(Size.from_symbol(symbol) in shape for shape in sizes):
        return None  # a sliding window, as long as before
    if not longer and not is_op(node, "Concat"):
        return None
    return str(longer[0].name) if longer else ""


def _returned(value: ir.Value) -> Iterator[ir.Value]:
    """Yield the graph outputs that contain a value, directly or after nodes that only move the value."""
    seen, waiting = {value}, [value]
    while waiting:
        now = waiting.pop()
        if now.is_graph_output():
            yield now
        for node, _ in now.uses():
            if not node.domain and (node.op_type in _MOVES or node.op_type == "Concat"):
                new = [out for out in node.outputs if out not in seen]
                seen.update(new)
                waiting += new
