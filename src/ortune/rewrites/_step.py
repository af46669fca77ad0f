"""One step of a recurrence, read as linear forms and elementwise functions of its input and state."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import float_of, int_of, ints_of
from ortune.graph.constants import constant, constant_tensor, one_number, scalar
from ortune.graph.limits import limits
from ortune.graph.nodes import input_of, is_op, source_of
from ortune.rewrites._linear_forms import Curve, Linear, Part, Values, clipped, cut, row_of, total
from ortune.rewrites._pattern import PatternFacts
from ortune.rewrites._probe import ELEMENTWISE

_DEPTH = 64  # maximum nodes within a step
_AXES = 2  # rank of a step's values: batch and features


class RecurrenceStep:
    """Expresses the values of one recurrence step as linear forms and elementwise functions.

    Attributes:
        state: State before the step.
        nodes: Nodes of the step that were visited.
        fed: Upstream nodes that compute a product for the step, last first.
    """

    def __init__(
        self, state: ir.Value, number: int, levels: Mapping[ir.Value, int], look: PatternFacts
    ) -> None:
        """Create step ``number``; ``levels`` maps values to the number of steps on the path to them, 0 if absent."""
        self.state, self.nodes, self.fed = state, dict[ir.Node, None](), dict[ir.Node, None]()
        self._number, self._levels, self._look = number, levels, look
        self._known: dict[ir.Value, Part | None] = {state: Linear({state: None})}

    def level(self, value: ir.Value) -> int:
        """Return the number of steps on the path to a value."""
        return self._levels.get(value, 0)

    def _belongs_to_step(self, value: ir.Value) -> bool:
        return self.level(value) == self._number

    def part(self, value: ir.Value | None, depth: int = _DEPTH) -> Part | None:
        """Return a value as a linear form, an elementwise function or a number; None if it has none of these forms."""
        if value is None or depth == 0:
            return None
        value = self._source(value)
        # Cached, since gates share subexpressions.
        if value not in self._known:
            self._known[value] = self._part(value, depth - 1)
        return self._known[value]

    def _source(self, value: ir.Value) -> ir.Value:
        """Return the value that `value` is a copy of, and record the nodes that copy it."""
        source = source_of(value)
        while value is not source and (node := value.producer()) is not None and node.inputs[0] is not None:
            (self.nodes if self.level(value) else self.fed)[node] = None
            value = node.inputs[0]
        return source

    def _part(self, value: ir.Value, depth: int) -> Part | None:
        number = one_number(value)
        if number is not None:
            return float(number.reshape(()))
        numbers = constant(value)
        if numbers is not None:
            return row_of(value, numbers)
        node, level = value.producer(), self.level(value)
        # Values of the previous step are where this one begins; those of earlier steps would make another
        # recurrence.
        if node is None or 0 < level < self._number:
            return Linear({value: None}) if level in (0, self._number - 1) else None
        part = self._linear(node, value, depth)
        if not level:
            # Upstream of the step, only products belong to the cell.
            if part is not None:
                self.fed[node] = None
            return part or Linear({value: None})
        self.nodes[node] = None
        return self._curve(node, depth) if part is None else part

    def _curve(self, node: ir.Node, depth: int) -> Part | None:
        """Return the elementwise function of a node; None for other nodes."""
        if is_op(node, "HardSigmoid"):
            line = self.part(node.inputs[0], depth)
            slope, offset = float_of(node, "alpha", 0.2), float_of(node, "beta", 0.5)
            if line is None:
                return None
            return clipped(Curve("Add", (Curve("Mul", (line, slope)), offset)), 0.0, 1.0)
        bounds = limits(node)
        if bounds is not None:
            operands = [
                value for value in node.inputs[: 1 if node.op_type == "Clip" else 2] if scalar(value) is None
            ]
            inner = self.part(operands[0], depth) if len(operands) == 1 else None
            return None if inner is None else clipped(inner, *bounds)
        if not is_op(node, *ELEMENTWISE):
            return None
        inputs = [self.part(operand, depth) for operand in node.inputs]
        parts = tuple(part for part in inputs if part is not None)
        return Curve(node.op_type, parts) if len(parts) == len(inputs) else None

    def _linear(self, node: ir.Node, value: ir.Value, depth: int) -> Part | None:
        if is_op(node, "Gemm", "MatMul"):
            return self._product(node, depth)
        if is_op(node, "Split", "Slice"):
            bounds = _bounds(node, value)
            # Axis 1 of a 3D value may be the time axis.
            flat = len(self._look.inferred(value).dims or ()) == _AXES
            whole = self.part(node.inputs[0], depth) if bounds is not None and flat else None
            return None if bounds is None or whole is None else cut(whole, *bounds)
        if is_op(node, "Add", "Sub"):
            one, other = (self.part(operand, depth) for operand in node.inputs)
            both = total(one, other, -1.0 if node.op_type == "Sub" else 1.0)
            if both is None and self._belongs_to_step(value) and is_op(node, "Add"):
                return self._projected(one, other)
            return both
        return None

    def _product(self, node: ir.Node, depth: int) -> Linear | None:
        weight = weight_of(node)
        if weight is None:
            return None
        product = self._factor(node.inputs[0], weight[1])
        if product is None or input_of(node, 2) is None:
            return product
        bias = self.part(node.inputs[2], depth)
        if isinstance(bias, float):
            bias = Linear({}, np.full(weight[1].shape[1], bias, weight[1].dtype))
        beta = float_of(node, "beta", 1.0)
        return total(product, bias, 1.0) if isinstance(bias, Linear) and beta == 1.0 else None

    def _factor(self, value: ir.Value | None, matrix: Values) -> Linear | None:
        """Return a value times a matrix, splitting a Concat into its inputs; None if that is not possible."""
        if value is None:
            return None
        value = self._source(value)
        node = value.producer()
        if node is not None and self._joins(node):
            return self._factors(node, matrix) if int_of(node, "axis", 0) in (1, -1) else None
        return None if self._belongs_to_step(value) and not self._is_reset(value) else Linear({value: matrix})

    def _factors(self, node: ir.Node, matrix: Values) -> Linear | None:
        """Return the sum of a Concat's inputs times their rows of a matrix; None if the widths do not fit."""
        self.nodes[node] = None
        widths = [self._width(operand) for operand in node.inputs]
        # One width may be unknown: it follows from the others and the matrix.
        open_ones = [i for i, width in enumerate(widths) if width is None]
        if len(open_ones) > 1:
            return None
        rest = matrix.shape[0] - sum(width or 0 for width in widths)
        parts: dict[ir.Value, Values | None] = {}
        start = 0
        for operand, width in zip(node.inputs, widths, strict=True):
            end = start + (rest if width is None else width)
            source = None if operand is None else self._source(operand)
            if source is None or source in parts or end > matrix.shape[0]:
                return None
            if self._belongs_to_step(source) and not self._is_reset(source):
                return None
            parts[source], start = matrix[start:end], end
        return Linear(parts) if start == matrix.shape[0] else None

    def _joins(self, node: ir.Node) -> bool:
        """Return whether a node is a Concat with the state or the reset state among its inputs."""
        sources = [source_of(value) for value in node.inputs if value is not None]
        return is_op(node, "Concat") and any(
            value is self.state or (self._belongs_to_step(value) and self._is_reset(value))
            for value in sources
        )

    def _is_reset(self, value: ir.Value) -> bool:
        """Return whether a value is a gate times the state, and record its nodes as nodes of the step."""
        part = self.part(value)
        return (
            isinstance(part, Curve)
            and part.operator == "Mul"
            and any(
                isinstance(factor, Linear) and factor.is_value and self.state in factor.parts
                for factor in part.inputs
            )
        )

    def _width(self, value: ir.Value | None) -> int | None:
        dims = self._look.inferred(value).dims
        return dims[-1] if dims and isinstance(dims[-1], int) else None

    def _projected(self, one: Part | None, other: Part | None) -> Linear | None:
        """Return the sum of a linear form and a value projected outside the step; None if that is not possible."""
        if not isinstance(one, Linear) or not isinstance(other, Linear) or one.is_value == other.is_value:
            return None
        value, form = (one, other) if one.is_value else (other, one)
        arrays = [array for array in (*form.parts.values(), form.bias) if array is not None]
        if not arrays or not form.parts or value.parts.keys() & form.parts.keys():
            return None
        key, width = next(iter(value.parts)), arrays[0].shape[-1]
        if self._width(key) not in (None, width):
            return None
        # A value without a matrix is the value times the identity.
        return Linear({**form.parts, key: np.eye(width, dtype=arrays[0].dtype)}, form.bias)


def stored_weight(node: ir.Node) -> tuple[ir.Value, bool] | None:
    """Return (weights, whether transposed) of a 2D product, without reading the weights; None for other nodes."""
    if not is_op(node, "Gemm", "MatMul") or len(node.inputs) < 2:
        return None
    value, turned = source_of(node.inputs[1]), False
    before = value.producer() if value is not None else None
    if before is not None and is_op(before, "Transpose") and (ints_of(before, "perm") or [1, 0]) == [1, 0]:
        value, turned = source_of(before.inputs[0]), True
    matrix = constant_tensor(value)
    if value is None or matrix is None or len(matrix.shape) != 2 or matrix.dtype.numpy().kind != "f":
        return None
    if int_of(node, "transA", 0) or float_of(node, "alpha", 1.0) != 1.0:
        return None
    # Two transpositions cancel.
    return value, turned ^ bool(int_of(node, "transB", 0))


def weight_of(node: ir.Node) -> tuple[ir.Value, Values] | None:
    """Return (stored weights, matrix that multiplies the first input) of a 2D product; None for other nodes."""
    weight = stored_weight(node)
    matrix = constant(weight[0]) if weight is not None else None
    if weight is None or matrix is None:
        return None
    return weight[0], matrix.T if weight[1] else matrix


def _bounds(node: ir.Node, value: ir.Value) -> tuple[int, int | None, int] | None:
    """Return (start, end, number of pieces) for a Split or Slice of the last axis; None for other nodes.

    For equal pieces, the end is None and the start is the index of the piece; otherwise the number of pieces is 0.
    """
    if is_op(node, "Split"):
        if int_of(node, "axis", 0) not in (1, -1):
            return None
        place = list(node.outputs).index(value)
        listed = ints_of(node, "split") if input_of(node, 1) is None else constant(node.inputs[1])
        if listed is None:
            return place, None, len(node.outputs)
        sizes = [int(size) for size in listed]
        return sum(sizes[:place]), sum(sizes[: place + 1]), 0
    if input_of(node, 1) is None:
        starts, ends, axes, steps = (ints_of(node, name) for name in ("starts", "ends", "axes", "steps"))
    else:
        operands = [constant(input_of(node, place)) for place in (1, 2, 3, 4)]
        starts, ends, axes, steps = (None if array is None else [int(n) for n in array] for array in operands)
    if axes not in ([1], [-1]) or starts is None or ends is None or steps not in (None, [1]) or starts[0] < 0:
        return None
    return starts[0], ends[0], 0
