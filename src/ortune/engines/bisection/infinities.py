"""Finds the node that made the infinities that lead to a NaN, by overflow or division by zero, as opposed to a mask.

An infinity is traced from a result to the operands that contain it: element by element through elementwise operators,
and by its sign through other operators. This excludes a mask of minus infinity that is added to an overflowing score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir

from ortune.engines.bisection.observing import ObservedGraph
from ortune.engines.bisection.value_statistics import KEPT, ValueStatistics
from ortune.graph.constants import stored
from ortune.graph.model.graphs import subgraphs
from ortune.graph.model.operators import PUBLIC_DOMAINS
from ortune.graph.model.tensors import not_finite
from ortune.graph.nodes import is_op
from ortune.inputs import feed_files
from ortune.outputs.files import Array, family
from ortune.records import InfinityKind

Signs = frozenset[int]

_ELEMENTWISE = frozenset({
    "Abs", "Add", "Cast", "Ceil", "Celu", "Clip", "Cos", "Cosh", "Div", "Dropout", "Elu", "Erf", "Exp", "Floor",
    "Gelu", "HardSwish", "Identity", "LeakyRelu", "Log", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "PRelu",
    "Pow", "Reciprocal", "Relu", "Round", "Selu", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Sub", "Sum",
    "Swish", "Tan", "ThresholdedRelu", "Where",
})  # fmt: skip
_KEEPS_SIGN = frozenset({
    "AveragePool", "Concat", "CumSum", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND",
    "GlobalAveragePool", "GlobalMaxPool", "LogSoftmax", "MaxPool", "Pad", "ReduceLogSumExp", "ReduceMax",
    "ReduceMean", "ReduceMin", "ReduceSum", "Reshape", "ScatterElements", "ScatterND", "Slice", "SpaceToDepth",
    "Split", "Squeeze", "Tile", "TopK", "Transpose", "Trilu", "Unsqueeze",
})  # fmt: skip
"""Operators that preserve the sign of an infinity: if the result is infinite, an input of that sign is, or the operator
made the infinity."""
_LOGARITHMS = frozenset({"Log", "ReduceLogSum"})
_DIVISOR = {"Div": 1, "Pow": 0, "Reciprocal": 0}
"""Index of the divisor among the operator's inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A node with infinities in its result and in none of its computed operands.

    Attributes:
        value: The node's result.
        kind: How the node makes infinities; "" if it reads them from a stored value or an input, or if unknown.
        given: Whether the infinities come from a stored value or an input.
    """

    value: ir.Value
    node: ir.Node
    kind: InfinityKind
    given: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbers:
    """Signs of a value's infinities, and the elements of its sample."""

    shape: tuple[int, ...]
    onnx_type: str
    signs: Signs
    whole: bool
    elements: Callable[[], Array]


class Infinities:
    """Traces the infinities of one run from results to operands.

    Args:
        side: The graph with its inputs.
        values: Statistics of the values that the graph's nodes returned, by name.
    """

    def __init__(self, side: ObservedGraph, values: Mapping[str, ValueStatistics]) -> None:
        self._side, self._values = side, values
        self._order = {node: i for i, node in enumerate(side.graph.graph)}
        self._known: dict[ir.Value, _Numbers | None] = {}
        self._feeds: dict[str, Array] | None = None

    def first(self, values: Iterable[ir.Value]) -> Origin | None:
        """Return the first node from which the infinities of these values come; None if there is none.

        A node that computes infinities is preferred to a node that reads them from a stored value or an input.

        Args:
            values: The values with NaN, or if no value has NaN, the values with infinities.
        """
        return min(
            (origin for value in values for origin in self._origins(value)),
            key=lambda origin: (origin.given, self._order[origin.node]),
            default=None,
        )

    def unlike_a_mask(self, value: ir.Value) -> bool:
        """Return whether a value has plus infinity or is all infinite, unlike a mask of minus infinity."""
        numbers, data = self._numbers(value), self._values.get(str(value.name))
        return (
            data is not None and numbers is not None and (1 in numbers.signs or 0 < data.n_inf == data.size)
        )

    def _origins(self, last: ir.Value) -> Iterator[Origin]:
        waiting: list[tuple[ir.Value, Signs | None]] = [(last, self._traced_signs(last))]
        met = set[ir.Value]()
        while waiting:
            value, signs = waiting.pop()
            node = value.producer()
            if value in met or node is None:
                continue
            met.add(value)
            behind = self._behind(node, value, signs)
            computed = [(v, s) for v, s in behind if v.producer() is not None and stored(v) is None]
            waiting += computed
            # A node that computes NaN from finite numbers has no infinities in its operands.
            if not computed and (signs is not None or behind):
                kind: InfinityKind = "" if behind else self._kind(node, value)
                yield Origin(value=value, node=node, kind=kind, given=bool(behind))

    def _traced_signs(self, value: ir.Value) -> Signs | None:
        """Return the signs of the infinities to trace; None for NaN."""
        data, numbers = self._values.get(str(value.name)), self._numbers(value)
        if data is not None and data.n_nan:
            return None
        signs = frozenset() if numbers is None else numbers.signs
        # Minus infinity may be an intended mask: if both signs occur, plus infinity must be explained.
        return signs & {1} or signs

    def _behind(self, node: ir.Node, value: ir.Value, signs: Signs | None) -> list[tuple[ir.Value, Signs]]:
        """Return the operands that cause the infinities of a result, each with the signs of its infinities."""
        operands = [
            (v, numbers)
            for v in dict.fromkeys(node.inputs)
            if v is not None and (numbers := self._numbers(v)) is not None and numbers.signs
        ]
        if is_op(node, *_ELEMENTWISE) and (exact := self._at_its_places(value, signs, operands)) is not None:
            return exact
        if signs is None and is_op(node, "Softmax", "LogSoftmax"):
            # One plus infinity makes a row NaN. Minus infinity becomes 0 in the result, unless the whole row is.
            signs = frozenset({1}) if any(1 in numbers.signs for _, numbers in operands) else None
        if signs is None or not is_op(node, *_KEEPS_SIGN, "Softmax"):
            return [(v, numbers.signs) for v, numbers in operands]
        return [(v, signs & numbers.signs) for v, numbers in operands if signs & numbers.signs]

    def _at_its_places(
        self, value: ir.Value, signs: Signs | None, operands: Iterable[tuple[ir.Value, _Numbers]]
    ) -> list[tuple[ir.Value, Signs]] | None:
        """Return the operands that are infinite where the result is NaN or infinite, with signs; None if unknown."""
        result = self._numbers(value)
        if result is None or not (places := _places(result, signs)).size:
            return None
        behind = []
        for operand, numbers in operands:
            elements = _aligned(numbers, result, places)
            if elements is None:
                return None
            if at_places := _signs(elements):
                behind.append((operand, at_places))
        return behind

    def _kind(self, node: ir.Node, value: ir.Value) -> InfinityKind:
        """Return how a node makes infinities from finite operands; "" if unknown."""
        operands = [(v, self._numbers(v)) for v in node.inputs if v is not None]
        unknown = any(numbers is None and stored(v) is None for v, numbers in operands)
        if unknown or node.domain not in PUBLIC_DOMAINS or any(True for _ in subgraphs(node)):
            return ""
        if is_op(node, *_LOGARITHMS):
            return "division-by-zero"
        if is_op(node, *_DIVISOR):
            return self._divided(self._numbers(value), self._numbers(node.inputs[_DIVISOR[node.op_type]]))
        # A normalization divides, too. An operator without float inputs, such as ConstantOfShape, gets the infinity.
        floats = any(n is not None and family(n.onnx_type) == "float" for _, n in operands)
        computes = is_op(node, "Cast") or (floats and "Norm" not in node.op_type and node.op_type != "Atanh")
        return "overflow" if computes else ""

    def _divided(self, result: _Numbers | None, divisor: _Numbers | None) -> InfinityKind:
        """Return whether a quotient is infinite by division by zero or by overflow; "" if unknown."""
        if result is None or divisor is None or not (places := _places(result, result.signs)).size:
            return ""
        elements = _aligned(divisor, result, places)
        return "" if elements is None else "division-by-zero" if (elements == 0).any() else "overflow"

    def _numbers(self, value: ir.Value | None) -> _Numbers | None:
        """Return the signs and elements of a value; None if they are unknown, or no real numbers."""
        if value is None:
            return None
        if value not in self._known:
            self._known[value] = self._read(value)
        return self._known[value]

    def _read(self, value: ir.Value) -> _Numbers | None:
        seen = self._values.get(str(value.name))
        if seen is not None:
            signs = ({-1} if seen.n_minus_inf else set()) | ({1} if seen.n_inf > seen.n_minus_inf else set())
            return _Numbers(
                shape=seen.shape,
                onnx_type=seen.onnx_type,
                signs=frozenset(signs),
                whole=seen.whole,
                elements=lambda: seen.values().reshape(-1),
            )
        tensor, fed = stored(value), self.feeds.get(str(value.name)) if value.is_graph_input() else None
        if fed is not None:
            array = fed
        elif tensor is not None and (tensor.size <= KEPT or not_finite(tensor)[1]):
            array = np.asarray(tensor.numpy())
        else:
            return None
        kind = feed_files.onnx_type(array)
        if kind == "string" or array.dtype.kind == "c":
            return None
        elements = array.reshape(-1).astype(np.float64)
        return _Numbers(
            shape=array.shape, onnx_type=kind, signs=_signs(elements), whole=True, elements=lambda: elements
        )

    @property
    def feeds(self) -> dict[str, Array]:
        """Input tensors of the model, by name."""
        if self._feeds is None:
            feeds = feed_files.read_feeds(Path(self._side.feed.path))
            self._feeds = {name: value for name, value in feeds.items() if isinstance(value, np.ndarray)}
        return self._feeds


def _signs(elements: Array) -> Signs:
    return frozenset(sign for sign in (-1, 1) if (elements == sign * np.inf).any())


def _places(result: _Numbers, signs: Signs | None) -> Array:
    """Return the positions of NaN in a result's sample; if ``signs`` is not None, of infinities with these signs."""
    elements = result.elements()
    if signs is None:
        return np.flatnonzero(np.isnan(elements))
    return np.flatnonzero(np.isin(elements, [sign * np.inf for sign in signs]))


def _aligned(operand: _Numbers, result: _Numbers, places: Array) -> Array | None:
    """Return the operand's elements at the given positions of a result; None if the samples do not overlap."""
    if operand.shape == result.shape and operand.whole == result.whole:
        return operand.elements()[places]
    if not operand.whole:
        return None
    size = int(np.prod(result.shape))
    # The sample of a large result is every ``step``-th element, so element i of it is element i * step of the result.
    step = 1 if result.whole else max(1, -(-size // KEPT))
    try:
        broadcast = np.broadcast_to(operand.elements().reshape(operand.shape), result.shape)
    except ValueError:
        return None
    return np.asarray(broadcast[np.unravel_index(places * step, result.shape)])
