"""Quantization grids: which values of a graph are always integer multiples of a constant scale.

A dequantized value is an integer times its scale. Two correct implementations may round a value near a tie to
neighbouring integers, so such values are compared in steps. Operators that only move, select or clip values keep the
grid. Multiplication by a constant number scales the step, and addition of a constant keeps the step, as in the box
decoding of detectors. Any other operator ends the grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import onnx_ir as ir

from ortune.graph.attributes import int_of, ints_of, text_of
from ortune.graph.constants import constant_tensor, scalar
from ortune.graph.dataflow import Flow
from ortune.graph.model.graphs import op_set

__all__ = ["Grid", "grids", "input_grids", "output_grids", "quantizes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A quantization grid: the values (integer - zero point) * scale, optionally shifted by a constant.

    Attributes:
        scales: A single scale, or one scale per index of ``axis``.
        zero_points: One zero point per scale; 0 if the node has none.
        axis: Axis of the value that the scales belong to, possibly negative; None if there is only one scale.
        integers: Whether the value consists of the integers, not yet multiplied by the scale.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None
    integers: bool = False


_ELEMENTWISE = op_set("Identity Relu Clip Dropout MaxPool GlobalMaxPool")
"""Operators that keep the grid and the position of the channel axis."""
_MOVES = _ELEMENTWISE | op_set(
    "Reshape Flatten Squeeze Unsqueeze Slice Gather GatherElements GatherND Split Expand Tile DepthToSpace "
    "SpaceToDepth Pad ReverseSequence Compress ReduceMax ReduceMin Trilu"
)
_JOINS = op_set("Concat Max Min")
_SUMS, _PRODUCTS = op_set("Add Sub"), op_set("Mul Div")

# Input index of the result's scale in operators on quantized values; the zero point is the next input.
_RESULT_SCALE = {
    "QuantizeLinear": 1,
    "QLinearConv": 6,
    "QLinearMatMul": 6,
    "QLinearAdd": 6,
    "QLinearMul": 6,
    "QGemm": 7,
    "QLinearWhere": 7,
    "QLinearConcat": 0,
    "QLinearSigmoid": 3,
    "QLinearLeakyRelu": 3,
    "QLinearSoftmax": 3,
    "QLinearAveragePool": 3,
    "QLinearGlobalAveragePool": 3,
    "QLinearReduceMean": 3,
}


def quantizes(node: ir.Node) -> bool:
    """Return whether a node rounds its output to a quantization grid."""
    return node.op_type.startswith(("QuantizeLinear", "DynamicQuantizeLinear", "QLinear", "QGemm"))


def grids(model: ir.Model) -> dict[str, Grid]:
    """Return the quantization grid of every quantized value of the main graph, by name."""
    flow = _followed(model)
    outputs = [value for node in model.graph for value in node.outputs]
    return {str(value.name): grid for value in outputs if (grid := flow.state(value)) is not None}


def output_grids(model: ir.Model) -> dict[str, Grid]:
    """Return the quantization grid of each quantized graph output, by name."""
    flow = _followed(model)
    return {str(value.name): grid for value in model.graph.outputs if (grid := flow.state(value)) is not None}


def input_grids(model: ir.Model) -> dict[str, Grid]:
    """Return the quantization grid of each graph input that is read only by QuantizeLinear nodes, by name."""
    rounded = {}
    for value in model.graph.inputs:
        users = [use.node for use in value.uses()]
        steps = [_scaled(node, 1) for node in users if node.op_type == "QuantizeLinear"]
        if steps and len(steps) == len(users) and steps[0] is not None:
            rounded[str(value.name)] = steps[0]
    return rounded


def _followed(model: ir.Model) -> Flow[Grid | None]:
    flow: Flow[Grid | None] = Flow(bottom=None, join=_join, transfer=_transfer)
    flow.run(model, lambda value: None)
    return flow


def _transfer(
    node: ir.Node, inputs: list[Grid | None], inside: list[Grid | None] | None
) -> list[Grid | None]:
    if inside is not None:
        return inside
    op, first = node.op_type, inputs[0] if inputs else None
    if op in _RESULT_SCALE:
        grid = _scaled(node, _RESULT_SCALE[op])
        return [grid and replace(grid, integers=True)]
    if op in _SUMS | _PRODUCTS:
        return [_with_constant(node, inputs)]
    return [] if first is None else _passed_on(node, first, inputs)


def _passed_on(node: ir.Node, first: Grid, inputs: list[Grid | None]) -> list[Grid | None]:
    """Return the grids of a node's outputs, given the grid of its first input."""
    op = node.op_type
    if op == "DequantizeLinear":
        return [_scaled(node, 1) if first.integers else None]
    if op == "Transpose":
        return [_transposed(node, first)]
    moved = op in _MOVES and (first.axis is None or op in _ELEMENTWISE)
    nearest = op == "Resize" and text_of(node, "mode", "nearest") == "nearest"
    joined = op in _JOINS and all(grid == first for grid in inputs)
    parts = len(node.outputs) if op == "Split" else 1  # other second outputs are indices and masks
    return [first] * parts if moved or nearest or joined else []


def _with_constant(node: ir.Node, inputs: list[Grid | None]) -> Grid | None:
    """Return the grid after arithmetic with a constant: addition keeps the step, multiplication scales it."""
    at = 0 if inputs[0] is not None else 1
    grid, other = inputs[at], node.inputs[1 - at]
    # A constant may broadcast to more dimensions, so the axis of several scales is unknown afterwards.
    if grid is None or grid.integers or grid.axis is not None:
        return None
    if node.op_type in _SUMS:
        return grid if constant_tensor(other) is not None else None
    number = scalar(other)
    if not number or (node.op_type == "Div" and at):
        return None
    scale = grid.scales[0] * (abs(number) if node.op_type == "Mul" else 1.0 / abs(number))
    return replace(grid, scales=(scale,)) if 0.0 < scale < math.inf else None


def _scaled(node: ir.Node, at: int) -> Grid | None:
    """Return the grid from the constant scale and zero point at inputs ``at`` and ``at + 1``; None without these."""
    if int_of(node, "block_size", 0) or len(node.inputs) <= at:
        return None
    sources = [value for value in node.inputs[at : at + 2] if value is not None]
    constants = [constant_tensor(value) for value in sources]
    tensors = [tensor for tensor in constants if tensor is not None]
    if not sources or len(tensors) < len(sources):
        return None
    scale, zero = tensors[0], next(iter(tensors[1:]), None)
    onnx_type = zero.dtype if zero is not None else _type_without_zero_point(node)
    if scale.size == 0 or len(scale.shape) > 1 or not onnx_type.is_integer():
        return None
    scales = tuple(map(float, scale.numpy().reshape(-1)))
    if not all(0.0 < number < float("inf") for number in scales):
        return None
    zeros = (0,) * len(scales)
    if zero is not None and zero.size == len(scales):
        zeros = tuple(map(int, zero.numpy().reshape(-1)))
    axis = int_of(node, "axis", 1) if len(scales) > 1 else None
    return Grid(scales=scales, zero_points=zeros, axis=axis)


def _type_without_zero_point(node: ir.Node) -> ir.DataType:
    """Return the integer type of a node without a zero point: its ``output_dtype``, or uint8."""
    named = int_of(node, "output_dtype", 0) if node.op_type == "QuantizeLinear" else 0
    return ir.DataType(named or ir.DataType.UINT8)


def _transposed(node: ir.Node, grid: Grid) -> Grid | None:
    if grid.axis is None:
        return grid
    order = ints_of(node, "perm") or []
    axis = grid.axis + len(order) if grid.axis < 0 else grid.axis
    return replace(grid, axis=order.index(axis)) if axis in order else None


def _join(a: Grid | None, b: Grid | None) -> Grid | None:
    return a if a == b else None
