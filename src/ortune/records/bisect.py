"""Where two runs of a model part: every value held against its counterpart, and the first node that differs."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.machine import Side
from ortune.records.measure import OutputDifference

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
        equal: Within that.
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


class Parting(Record, frozen=True, kw_only=True):
    """A place where values part: what goes in is equal, what comes out is not.

    Attributes:
        value: What comes out.
        a, b: The nodes of each side between the values that go in and that one, in the order in which they run; of a
            side none, where what the other side has besides is what makes the difference.
        at: Of these nodes the one that does the work: A's, as the user's own model names it; B's where A has none.
        inputs: What goes in and was matched; it is equal.
        changes: What is not the same in the two, where each is one node.
    """

    value: ValuePair
    a: tuple[GraphNode, ...]
    b: tuple[GraphNode, ...]
    at: GraphNode | None = None
    inputs: tuple[ValuePair, ...] = ()
    changes: tuple[NodeChange, ...] = ()


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


class BisectResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune bisect --json``.

    Attributes:
        outputs: How far the outputs are apart, as the two sides run them.
        graphs: Which graphs were looked at: "files", the models as they are, with the optimiser off; "optimised", what
            ONNX Runtime makes of each; "" where the outputs are the same.
        partings: Places where values part, in the order in which they run; the first is the answer.
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
    not_finite: tuple[NotFinite, ...] = ()
    values: tuple[ValuePair, ...] = ()
    n_values_a: int = 0
    n_values_b: int = 0
    bodies: bool = False
    headline: str = ""
    notes: tuple[str, ...] = ()
