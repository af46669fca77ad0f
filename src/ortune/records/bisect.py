"""The point at which the values of two runs of a model diverge: matched values, and the first node that differs."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.measure import GridSteps, SliceError

MatchedBy = Literal["name", "values", "structure"]
"""How two values were matched: by name; by equal elements, in any layout; or by structure, as results of the same
operators with matched inputs and the same weights, or of one operator with matched inputs."""


class GraphNode(Record, frozen=True, kw_only=True):
    """A node of a graph as it ran.

    Attributes:
        name: The node's name; "" if it has none. ``value`` identifies the node.
        operator: "domain:Operator", or "Operator" for the ONNX domain.
        of: The nodes of the original model that it replaces, if ONNX Runtime created it.
        bodies: Whether it contains subgraphs, which were not compared.
    """

    name: str
    operator: str
    value: str
    of: tuple[str, ...] = ()
    bodies: bool = False


class ValuePair(Record, frozen=True, kw_only=True):
    """A value of A and its counterpart in B.

    Attributes:
        a, b: Names of the two values.
        node, operator: The node that produces it in A.
        relative_l2: Relative L2 distance of the two values; None if the values are non-finite in different places, or
            the reference is all zeros.
        limit: The distance that rounding explains: a few steps of the type, or thirty times the change caused by moving
            inputs and small weights by one step.
        equal: Whether the distance is within the limit; for values on one quantization grid, whether it is at most one
            step.
        steps: The distance in steps, if both are on one quantization grid.
        slice: The worst slice, for values with more than one axis.
        shape_b: The shape in B, if it differs; elements then have no counterparts.
    """

    a: str
    b: str
    node: str
    operator: str
    matched_by: MatchedBy
    onnx_type: str
    shape: tuple[int, ...]
    relative_l2: float | None
    limit: float
    equal: bool
    steps: GridSteps | None = None
    slice: SliceError | None = None
    shape_b: tuple[int, ...] | None = None


class NodeChange(Record, frozen=True, kw_only=True):
    """A difference between two nodes.

    Attributes:
        part: "operator", "attribute" or "weight".
        name: The attribute or weight.
        was, now: The value in A and in B as text; "" for a weight and for a missing value.
        relative_l2: Relative L2 distance of the weight in A and in B; None if the shapes differ.
    """

    part: Literal["operator", "attribute", "weight"]
    name: str = ""
    was: str = ""
    now: str = ""
    relative_l2: float | None = None


class WeightFault(Record, frozen=True, kw_only=True):
    """Stored values that are invalid or too coarse.

    Attributes:
        side: The side that has the weight.
        kind: "not-finite": NaN or infinite; "saturated": integers at the limits of their type; "too-coarse": one scale
            for all channels leaves some of them almost no steps.
        onnx_type: The stored type.
        n, size: Number of affected elements (channels for "too-coarse"), and number of all elements.
    """

    side: Literal["A", "B"]
    kind: Literal["not-finite", "saturated", "too-coarse"]
    name: str
    onnx_type: str
    n: int
    size: int


class ClippedActivation(Record, frozen=True, kw_only=True):
    """An activation with values outside of the range that its quantization can represent.

    Attributes:
        side: The side that quantizes it.
        name: The value that goes into QuantizeLinear.
        low, high: Ends of the range.
        least, most: The smallest and the largest value.
        share: Fraction of the elements outside of the range.
    """

    side: Literal["A", "B"]
    name: str
    low: float
    high: float
    least: float
    most: float
    share: float


class Parting(Record, frozen=True, kw_only=True):
    """A place where values diverge: its outputs differ by more than its inputs explain.

    The inputs are equal, or much closer than the outputs.

    Attributes:
        value: The output that differs.
        a, b: Each side's nodes between the matched inputs and that output, in order of execution; empty on one side if
            the other side's additional nodes cause the difference.
        at: The node that does the work, by its name in the original model: A's node, or B's if A has none.
        at_b: The corresponding node of B; None if B has none.
        inputs: The matched inputs.
        before: Relative L2 distance of the inputs, or of their worst slice; 0 if identical. None as in ``ValuePair``.
        after: The same for the output.
        weights: Invalid or too coarse weights of these nodes.
        clipped: Activations that quantization clips here.
        changes: The differences between the two nodes, if each side has one.
    """

    value: ValuePair
    a: tuple[GraphNode, ...]
    b: tuple[GraphNode, ...]
    at: GraphNode | None = None
    at_b: GraphNode | None = None
    inputs: tuple[ValuePair, ...] = ()
    changes: tuple[NodeChange, ...] = ()
    before: float | None = 0.0
    after: float | None = None
    weights: tuple[WeightFault, ...] = ()
    clipped: tuple[ClippedActivation, ...] = ()


InfinityKind = Literal["", "overflow", "division-by-zero"]
"""How a node computed infinities from finite operands; "" if it did not, or if unknown."""


class NotFinite(Record, frozen=True, kw_only=True):
    """Origin of the non-finite values of a side.

    Attributes:
        node: The first node that produces such a value. If an output of the model is affected, only nodes upstream of
            it are considered. If a NaN results from infinities that an earlier node computed, this is the earlier node.
        infinity: How that node computed infinities from finite operands.
        onnx_type: The element type of the value of ``node``.
        nan_node: The node that computes NaN from these infinities; None if there is none, or it is the same node.
        n_nan, n_inf, size: Numbers of NaN and infinite elements in the value of ``node``, and of all its elements.
        weight: Name of the stored tensor with non-finite values that feeds this node or an earlier one; "" if none.
        weight_type, weight_n_nan, weight_n_inf: ONNX type of ``weight``, and its numbers of NaN and infinite elements.
        reaches: Whether an output of the model is affected.
        input: The model's input that feeds this node or an earlier one and is not finite itself; "" for none.
        input_n_nan, input_n_inf: Numbers of NaN and infinite elements of that input.
    """

    side: Literal["A", "B"]
    node: GraphNode
    n_nan: int
    n_inf: int
    size: int
    weight: str = ""
    weight_type: str = ""
    weight_n_nan: int = 0
    weight_n_inf: int = 0
    reaches: bool = False
    infinity: InfinityKind = ""
    onnx_type: str = ""
    nan_node: GraphNode | None = None
    input: str = ""
    input_n_nan: int = 0
    input_n_inf: int = 0


class GridDifference(Record, frozen=True, kw_only=True):
    """Values on one quantization grid that differ by several steps.

    Attributes:
        node: The first node that produces such a value.
        steps: The largest difference, in quantization steps.
    """

    node: GraphNode
    steps: GridSteps
