"""The rows of a batch: on which axis they are, and which nodes make one row's answer depend on the others."""

from __future__ import annotations

import re
from dataclasses import dataclass

import onnx_ir as ir

from ortune.graph.dataflow import Flow
from ortune.graph.model.graphs import nodes
from ortune.graph.rows.follow import SHARED_RANGE, after
from ortune.graph.rows.state import Rows
from ortune.graph.shapes.known import known_values
from ortune.graph.shapes.symbols import Size, feedable, input_sizes, is_anonymous, kind_of_name

_WEAK = "n"
"""A name of a dimension that is a batch in most models, and a number of points or nodes in some."""
_IMAGE_RANK, _CHANNELS = 4, (1, 3, 4)
_MASK = re.compile(r"mask|padding", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedRows:
    """Nodes in which rows meet, in graph order.

    Attributes:
        over_batch: Nodes that normalise, reduce or contract over the axis of the rows.
        ranges: Nodes that take a quantization range over all rows.
    """

    over_batch: tuple[ir.Node, ...] = ()
    ranges: tuple[ir.Node, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """A mask with the inputs that are as long as it.

    Attributes:
        mask: The name of the mask.
        axes: The axis of the length by input, the mask's own included.
    """

    mask: str
    axes: dict[str, int]


def batch_axes(model: ir.Model) -> dict[str, int]:
    """Return the axis of the rows by input; empty if no input has rows, or it is uncertain which axis they are on.

    Rows are certain by the name of a dynamic dimension, or without a name for images and token ids. Two names for
    two batches (texts and images, say) are no rows: what is computed between them is meant.
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
    """Return the masks of two dimensions whose length is dynamic: with one, a shorter row can be padded."""
    found = []
    for value in feedable(model):
        shape = input_sizes(value)
        if shape and len(shape) == 2 and shape[1].terms and _MASK.search(value.name or ""):
            found.append(value.name or "")
    return tuple(found)


def length_axes(model: ir.Model) -> Lengths | None:
    """Return a mask, and the axes of all inputs that have its length; None if padding a row needs other inputs."""
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
    """Find the nodes through which the rows of a batch, or a row and its padding, influence an output's rows."""
    axes, padded = batch_axes(model), bool(masks(model))
    if not axes and not padded:
        return MixedRows()
    values, fed = known_values(model), set(feedable(model))
    # As inference names the dimensions of inputs.
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
        if _of_rows(value, flow.of(value))
        for node in flow.of(value).mixed
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
    """Return whether an output has an answer for each row: a loss of all rows together has none."""
    if rows.axis is not None:
        return True
    return value.shape is not None and len(value.shape) > 0 and not isinstance(value.shape[0], int)


def _symbol(size: Size) -> str:
    """Return the symbol that a size is; "" for a number or a sum."""
    return size.terms[0][0] if len(size.terms) == 1 and not size.add and size.terms[0][1] == 1 else ""


def _everywhere_first(model: ir.Model, symbol: str) -> bool:
    """Return whether all inputs and outputs begin with that dimension, and have it nowhere else."""
    for value in (*feedable(model), *model.graph.outputs):
        symbols = [_symbol(size) for size in input_sizes(value) or ()]
        if symbols[:1] != [symbol] or symbol in symbols[1:]:
            return False
    return True


def _rows_without_name(value: ir.Value, sizes: tuple[Size, ...] | None) -> bool:
    """Return whether an input is images or token ids, whose first dimension has no name."""
    if not sizes or not is_anonymous(_symbol(sizes[0])) or sizes[0].value is not None:
        return False
    if len(sizes) == _IMAGE_RANK:
        return sizes[1].value in _CHANNELS or sizes[3].value in _CHANNELS
    return len(sizes) == 2 and any(use.node.op_type == "Gather" and use.idx == 1 for use in value.uses())
