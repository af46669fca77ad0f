"""Where two runs of a model part: every value held against its counterpart, and the first node that differs."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.machine import Side
from ortune.records.measure import GridSteps, OutputDifference, SliceError

MatchedBy = Literal["name", "values", "structure"]
"""How two values found each other: by their name; by their elements, in any layout; as what the same operators make of
the same inputs and weights, or one operator of values that belong together."""


class GraphNode(Record, frozen=True, kw_only=True):
    """A node of a graph as it was run.

    Attributes:
        name: "" where it has none; the value that it makes tells which it is.
        operator: "domain:Operator", or "Operator" in the domain of ONNX.
        of: The user's own nodes that it stands for, where ONNX Runtime made it.
        bodies: It has graphs of its own, which were not looked into.
    """

    name: str
    operator: str
    value: str
    of: tuple[str, ...] = ()
    bodies: bool = False


class ValuePair(Record, frozen=True, kw_only=True):
    """A value of A and its counterpart in B.

    Attributes:
        a, b: Their names.
        node, operator: What makes it in A.
        relative_l2: None where values that are not finite stand elsewhere, or nothing but zeros are the reference.
        limit: What rounding explains of that value: a few steps of its type, or thirty times as much as it moves when
            inputs and small weights move by one step.
        equal: Within that; of values on one grid, at most a step apart.
        steps: Where both lie on one quantization grid.
        slice: Of values of more than one axis.
        shape_b: B's, where it has other lengths: no element stands for another.
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
    """What two nodes have that is not the same.

    Attributes:
        part: "operator", "attribute" or "weight".
        name: Of the attribute or weight.
        was, now: In A and in B, as text; "" for a weight, and for what is not there.
        relative_l2: Of a weight; None where the two have other sizes.
    """

    part: Literal["operator", "attribute", "weight"]
    name: str = ""
    was: str = ""
    now: str = ""
    relative_l2: float | None = None


class WeightFault(Record, frozen=True, kw_only=True):
    """A stored value that cannot hold what it should.

    Attributes:
        side: Whose weight it is.
        kind: "not-finite": NaN or infinities; "saturated": integers at the ends of their type; "too-coarse": one scale
            for channels of which some have next to no step left.
        onnx_type: As it is stored.
        n, size: Elements, or channels of "too-coarse", that are so, and all of them.
    """

    side: Literal["A", "B"]
    kind: Literal["not-finite", "saturated", "too-coarse"]
    name: str
    onnx_type: str
    n: int
    size: int


class Parting(Record, frozen=True, kw_only=True):
    """A place where values part: what comes out is farther apart than what goes in explains.

    What goes in is equal, or it is so much nearer that what comes out breaks here.

    Attributes:
        value: What comes out.
        a, b: The nodes of each side between the values that go in and that one, in the order in which they run; of a
            side none, where what the other side has besides is what makes the difference.
        at: Of these nodes the one that does the work: A's, as the user's own model names it; B's where A has none.
        at_b: The same of B's nodes; None where B has none.
        inputs: What goes in and was matched.
        before: Relative L2 of what goes in, or of its worst slice; 0 where it is equal bit by bit. None as for values.
        after: The same of what comes out.
        weights: Stored values of these nodes that cannot hold what they should.
        changes: What is not the same in the two, where each is one node.
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


class NotFinite(Record, frozen=True, kw_only=True):
    """Where the NaN of a side begin, or its infinities where it has no NaN.

    Attributes:
        node: Makes the first value that holds them: of those on the way to an output, where an output holds them too.
        n_nan, n_inf, size: Elements of that value.
        weight: Stored values that are not finite themselves, and go into that node or what is before it; "" for none.
        weight_type: Their type in ONNX.
        reaches: An output of the model holds them too.
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


class GridDifference(Record, frozen=True, kw_only=True):
    """Values on one quantization grid that are steps of it apart.

    Attributes:
        node: The first that makes such a value.
        steps: Of the value of which most is so.
    """

    node: GraphNode
    steps: GridSteps


class BisectResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune bisect --json``.

    Attributes:
        outputs: How far the outputs are apart, as the two sides run them.
        graphs: Which graphs were looked at: "files", the models as they are, with the optimiser off; "optimised", what
            ONNX Runtime makes of each; "" where the outputs are the same.
        partings: Places where values part: first the answer, the one from which they are as far apart as it matters;
            then all others in the order in which they run.
        first: The first place in that order, where it is another one than the answer.
        wrong: The side whose outputs are wrong, as the same model without optimisation or in double precision shows;
            "both" where they are equal and wrong, "" where neither was shown to be.
        judged_by: What shows it.
        stepped: Values on one quantization grid are steps of it apart.
        not_finite: Of each side that has any.
        values: Every matched value in the order of A's nodes.
        n_values_a, n_values_b: Values that were looked at.
        bodies: Some nodes have graphs of their own, which were not looked into.
        headline: The answer in one sentence.
    """

    base: Side
    new: Side
    outputs: OutputDifference
    graphs: Literal["", "files", "optimised"] = ""
    partings: tuple[Parting, ...] = ()
    first: Parting | None = None
    wrong: Literal["", "A", "B", "both"] = ""
    judged_by: Literal["", "optimiser-off", "float64"] = ""
    stepped: GridDifference | None = None
    not_finite: tuple[NotFinite, ...] = ()
    values: tuple[ValuePair, ...] = ()
    n_values_a: int = 0
    n_values_b: int = 0
    bodies: bool = False
    headline: str = ""
    notes: tuple[str, ...] = ()
