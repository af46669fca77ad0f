"""Batch rows: the axis of the rows in each input, and the nodes that make one row's result depend on others."""

from __future__ import annotations

import re
from dataclasses import dataclass

import onnx_ir as ir

from ortune.graph.dataflow import Flow
from ortune.graph.model.graphs import nodes
from ortune.graph.rows.follow import SHARED_RANGE, after
from ortune.graph.rows.state import Rows
from ortune.graph.shapes.complete import complete_values
from ortune.graph.shapes.known import known_values
from ortune.graph.shapes.symbols import Size, feedable, input_sizes, is_anonymous, kind_of_name

_WEAK = "n"
"""A dimension name that means a batch in most models, but a number of points or nodes in some."""
_IMAGE_RANK, _CHANNELS = 4, (1, 3, 4)
_MASK = re.compile(r"mask|padding", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedRows:
    """Nodes that combine rows, in graph order.

    Attributes:
        over_batch: Nodes that normalize, reduce or contract over the row axis.
        ranges: Nodes that compute one quantization range for all rows.
    """

    over_batch: tuple[ir.Node, ...] = ()
    ranges: tuple[ir.Node, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """A mask input, and the inputs that have the same length.

    Attributes:
        mask: Name of the mask input.
        axes: Length axis by input name, including the mask.
    """

    mask: str
    axes: dict[str, int]


def batch_axes(model: ir.Model) -> dict[str, int]:
    """Return the row axis by input name; empty if no input has rows or the axis is uncertain.

    Rows are identified by the name of a dynamic dimension or, if it is unnamed, in images and token ids. Two different
    names for two batches (texts and images, say) do not count as rows, since the model combines them on purpose.
    """
    inputs = feedable(model)
    sizes = {value: input_sizes(value) for value in inputs}
    named: dict[ir.Value, list[tuple[int, str]]] = {
        value: [(i, s) for i, size in enumerate(shape or ()) if (s := _symbol(size)) and kind_of_name(s) == "batch"]
        for value, shape in sizes.items()
    }  # fmt: skip
    symbols = {symbol for found in named.values() for _, symbol in found}
    if any(len(found) > 1 for found in named.values()) or len(symbols) > 1:
        return {}
    if symbols and next(iter(symbols)).lower() == _WEAK and not _everywhere_first(model, next(iter(symbols))):
        return {}
    if symbols:
        return {value.name or "": found[0][0] for value, found in named.items() if found}
    return {value.name or "": 0 for value in inputs if _rows_without_name(value, sizes[value])}


def masks(model: ir.Model) -> tuple[str, ...]:
    """Return the names of the two-dimensional masks of dynamic length, with which a shorter row can be padded."""
    found = []
    for value in feedable(model):
        shape = input_sizes(value)
        if shape and len(shape) == 2 and shape[1].terms and _MASK.search(value.name or ""):
            found.append(value.name or "")
    return tuple(found)


def length_axes(model: ir.Model) -> Lengths | None:
    """Return a mask with the length axes of all inputs of the same length; None if no mask suffices to pad a row."""
    sizes = {value.name or "": input_sizes(value) or () for value in feedable(model)}
    for mask in masks(model):
        symbol = _symbol(sizes[mask][1])
        if not symbol:
            continue
        if is_anonymous(symbol):
            same = {
                name: [1]
                for name, shape in sizes.items()
                if len(shape) == 2 and is_anonymous(_symbol(shape[1]))
            }
        else:
            same = {
                name: [i for i, size in enumerate(shape) if _symbol(size) == symbol]
                for name, shape in sizes.items()
            }
        axes = {name: found[0] for name, found in same.items() if len(found) == 1}
        if len(axes) > 1 and all(len(found) < 2 for found in same.values()):
            return Lengths(mask=mask, axes=axes)
    return None


def mixed_rows(model: ir.Model) -> MixedRows:
    """Return the nodes through which rows of a batch, or padding of a row, influence other rows of an output."""
    axes, padded = batch_axes(model), bool(masks(model))
    if not axes and not padded:
        return MixedRows()
    values, fed = known_values(model), set(feedable(model))
    # onnx infers nothing of ONNX Runtime's own operators, nor of what follows them.
    if any(values.dims(output) is None for node in model.graph for output in node.outputs):
        values = complete_values(model)
    # Names that shape inference gives to dimensions of inputs.
    symbols = frozenset(f"{name}[{axis}]" for name, axis in axes.items())
    flow: Flow[Rows] = Flow(
        bottom=Rows(),
        join=_either,
        transfer=lambda node, inputs, inside: after(
            node, inputs, inside, values, symbols=symbols, padded=padded
        ),
    )
    flow.run(model, lambda value: Rows(axis=axes.get(value.name or ""), varies=value in fed))
    mixers = frozenset(
        node
        for value in model.graph.outputs
        if _of_rows(value, flow.state(value))
        for node in flow.state(value).mixed
    )
    ordered = [node for node in nodes(model) if node in mixers]
    return MixedRows(
        over_batch=tuple(node for node in ordered if node.op_type not in SHARED_RANGE),
        ranges=tuple(node for node in ordered if node.op_type in SHARED_RANGE),
    )


def _either(a: Rows, b: Rows) -> Rows:
    same = a.axis == b.axis
    return Rows(
        axis=a.axis if same else None,
        spread=a.spread or b.spread,
        lost=a.lost or b.lost or not same,
        varies=a.varies or b.varies,
        mixed=a.mixed | b.mixed,
    )


def _of_rows(value: ir.Value, rows: Rows) -> bool:
    """Return whether an output has one result per row, unlike a loss over all rows."""
    if rows.axis is not None:
        return True
    return value.shape is not None and len(value.shape) > 0 and not isinstance(value.shape[0], int)


def _symbol(size: Size) -> str:
    """Return the symbol of a size; "" for a number or an expression."""
    return size.terms[0][0] if len(size.terms) == 1 and not size.add and size.terms[0][1] == 1 else ""


def _everywhere_first(model: ir.Model, symbol: str) -> bool:
    """Return whether ``symbol`` is the first dimension of all inputs and outputs, and occurs in no other position."""
    for value in (*feedable(model), *model.graph.outputs):
        symbols = [_symbol(size) for size in input_sizes(value) or ()]
        if symbols[:1] != [symbol] or symbol in symbols[1:]:
            return False
    return True


def _rows_without_name(value: ir.Value, sizes: tuple[Size, ...] | None) -> bool:
    """Return whether an input contains images or token ids and has an unnamed first dimension."""
    if not sizes or not is_anonymous(_symbol(sizes[0])) or sizes[0].value is not None:
        return False
    if len(sizes) == _IMAGE_RANK:
        return sizes[1].value in _CHANNELS or sizes[3].value in _CHANNELS
    return len(sizes) == 2 and any(use.node.op_type == "Gather" and use.idx == 1 for use in value.uses())
