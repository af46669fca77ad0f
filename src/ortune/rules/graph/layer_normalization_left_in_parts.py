"""A layer normalisation is spelled out in a form that is not fused.

What it is: mean, difference, square, mean, root and quotient, which ONNX Runtime would make one LayerNormalization,
    were they not written in a form that it does not know. Before opset 17 it moves a Transpose that stands before them
    through them to one behind, so that they are no longer over the last axis.
Why it costs: nine passes over the tensor in place of one.
Evidence: the nodes, and what keeps them from being fused: the axis, the square, the root, the quotient, epsilon, the
    scale and shift, a second reader between, a Transpose before, or other operators altogether. Each of these forms was
    seen to stay in the optimised graph of ONNX Runtime 1.31.
Fix and its safety: exact: the rewrite ``layer-normalization``, where it knows the form; else advice: export with opset
    17 or later, where LayerNormalization is an operator.
Example: ``torch.onnx.export(..., opset_version=17)``
References: ONNX operator documentation, "LayerNormalization"; microsoft/onnxruntime#12916, #21332.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ortune.graph.attributes import ints_of
from ortune.graph.constants import constant, scalar, stored
from ortune.graph.nodes import is_op, only_user, other_input
from ortune.graph.sizes import least_rank, reduced_axes
from ortune.model.graphs import nodes, op_set
from ortune.model.open import OpenModel
from ortune.records import Finding
from ortune.rewrites.layer_normalization import REWRITE, written_otherwise
from ortune.rules._fixes import mended_by
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "GRA011"

_HALF, _TWO = 0.5, 2.0
_LOOKED_AT = 32  # means: trying what becomes of one takes up to a tenth of a second
_STEPS = 9  # nodes from a mean of squares to a root
_BETWEEN = op_set(
    "Sub Mul Pow Div Add Sqrt Reciprocal Reshape Expand Unsqueeze Squeeze Max Neg Cast ReduceMean ReduceSum"
)
_OPERATOR_OPSET = 17  # from here on ONNX Runtime makes LayerNormalization before it moves any Transpose

BAD = """
<ir_version: 8, opset_import: ["" : 16]>
channels (float[2,8,16] x, float[8,1] s, float[8,1] b) => (float[2,8,16] y)
{
    m = ReduceMean <axes = [1]> (x)
    d = Sub (x, m)
    two = Constant <value = float {2.0}> ()
    q = Pow (d, two)
    v = ReduceMean <axes = [1]> (q)
    e = Constant <value = float {0.00001}> ()
    a = Add (v, e)
    r = Sqrt (a)
    [bad_quotient] n = Div (d, r)
    t = Mul (n, s)
    y = Add (t, b)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 16]>
features (float[2,8,16] x) => (float[2,8,16] y)
<float[16] s = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}, float[16] b = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}>
{
    m = ReduceMean <axes = [-1]> (x)
    d = Sub (x, m)
    two = Constant <value = float {2.0}> ()
    q = Pow (d, two)
    v = ReduceMean <axes = [-1]> (q)
    e = Constant <value = float {0.00001}> ()
    a = Add (v, e)
    r = Sqrt (a)
    n = Div (d, r)
    t = Mul (n, s)
    y = Add (t, b)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Everywhere in the model."""
    why = _reasons(facts.model) if facts.model else {}
    if why:
        reasons = "; ".join(dict.fromkeys(why.values()))
        finding = Finding(
            code=CODE,
            what=f"layer normalisations that are not fused: {counted([*why])}",
            where=tuple(map(name_of, why)),
            evidence=reasons,
            fix="export with opset 17 or later",
        )
        yield mended_by(REWRITE, finding, facts)


def _reasons(model: OpenModel) -> dict[ir.Node, str]:
    """Why each layer normalisation is not fused, by the node that ends it."""
    moved = model.facts.opsets.get("", 0) < _OPERATOR_OPSET
    why: dict[ir.Node, str] = {}
    known: set[ir.Node | None] = set()
    for node in nodes(model.ir):
        parts = _parts(node)
        if parts is not None:
            known |= {parts.variance, parts.mean}
            if reason := _reason(node, parts) or (_moved(node, parts) if moved else ""):
                why[node] = reason
    others = (
        node
        for node in nodes(model.ir)
        if is_op(node, "ReduceMean", "ReduceSum") and node not in known and _may(node)
    )
    for node in itertools.islice(others, _LOOKED_AT):
        found = written_otherwise(node)
        if found is not None:
            why[found[0]] = f"it is written without {' or '.join(found[1])}"
    return why


def _may(mean: ir.Node) -> bool:
    """Whether a difference and a root are made of a mean soon: most means are those of something else."""
    seen: dict[ir.Node, None] = {}
    level = [mean]
    for _ in range(_STEPS):
        level = [use.node for node in level for value in node.outputs for use in value.uses()]
        level = [node for node in dict.fromkeys(level) if is_op(node, *_BETWEEN) and node not in seen]
        seen |= dict.fromkeys(level)
    kinds = {node.op_type for node in seen}
    return "Sub" in kinds and not kinds.isdisjoint(("Sqrt", "Pow"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What a layer normalisation that a quotient ends is made of."""

    mean: ir.Node
    difference: ir.Value
    square: ir.Node
    variance: ir.Node
    total: ir.Node
    root: ir.Node


def _reason(node: ir.Node, parts: _Parts) -> str:
    """Why a quotient that ends a layer normalisation is not fused; "" where it is."""
    difference, root, variance, square = parts.difference, parts.root, parts.variance, parts.square
    axes = reduced_axes(variance)
    if axes is None or len(axes) != 1:
        return ""
    source = _maker(difference)
    rank = max(least_rank(difference), least_rank(source.inputs[0]) if source is not None else 0)
    last = axes[0] == -1 or axes[0] == rank - 1
    unknown = {
        f"it is over axis {axes[0]}, not the last": not last and (axes[0] < 0 or rank > 0),
        "a product with the reciprocal in place of a quotient": node.op_type == "Mul",
        "a power of one half in place of Sqrt": root.op_type == "Pow",
        "a product with itself in place of Pow": square.op_type == "Mul",
    }
    if any(unknown.values()) or not last:
        return next((reason for reason, holds in unknown.items() if holds), "")
    return _epsilon(parts) or _shared(node, parts) or _scale(node)


def _epsilon(parts: _Parts) -> str:
    """What is wrong with what is added to the variance."""
    added = other_input(parts.total, parts.variance.outputs[0])
    return "epsilon is not a constant" if constant(added) is None else ""


def _shared(node: ir.Node, parts: _Parts) -> str:
    """What is read by others too."""
    means = {use.node for use in parts.mean.outputs[0].uses() if is_op(use.node, "Sub")}
    between: list[tuple[str, ir.Value, Collection[ir.Node]]] = [
        ("the mean", parts.mean.outputs[0], means),
        ("the difference", parts.difference, (node, parts.square)),
        ("the square", parts.square.outputs[0], (parts.variance,)),
        ("the variance", parts.variance.outputs[0], (parts.total,)),
        ("the sum with epsilon", parts.total.outputs[0], (parts.root,)),
        ("the root", parts.root.outputs[0], (node,)),
    ]
    for name, value, own in between:
        if value.is_graph_output() or any(use.node not in own for use in value.uses()):
            return f"something else reads {name}"
    return ""


def _moved(node: ir.Node, parts: _Parts) -> str:
    """Whether one Transpose is moved through it to meet another behind, and so its axis is not the last any more.

    With none behind, what ONNX Runtime does depends on what it knows of sizes: that is not told of.
    """
    before, behind = _maker(parts.mean.inputs[0]), _end(node)
    others = (
        [use.node for use in before.outputs[0].uses() if not is_op(use.node, "Sub", "ReduceMean")]
        if before
        else []
    )
    first, second = _order(before), _order(behind)
    moves = bool(first) and first[-1] != len(first) - 1 and not others
    back = [first[axis] for axis in second] if len(second) == len(first) else []
    undone = moves and back == list(range(len(first)))
    return "before opset 17 the Transpose before it is moved through it to the one behind" if undone else ""


def _end(node: ir.Node) -> ir.Node | None:
    """What alone reads a layer normalisation, behind the scale and the shift that follow a quotient."""
    user: ir.Node | None = node
    for operator in ("Mul", "Add", "Transpose"):
        user = only_user(user.outputs[0]) if user is not None else None
        if not is_op(user, operator):
            return None
    return user


def _order(node: ir.Node | None) -> Sequence[int]:
    """How a Transpose orders axes; () for others."""
    return (ints_of(node, "perm") or ()) if node is not None and is_op(node, "Transpose") else ()


def _parts(node: ir.Node) -> _Parts | None:
    """The layer normalisation that a node ends; None where it ends none."""
    difference, below = _quotient(node)
    root = _maker(below)
    total = _maker(root.inputs[0]) if root is not None and _is_root(root) else None
    if root is None or total is None or not is_op(total, "Add") or not _is_difference(difference):
        return None
    variance = next((v for v in map(_maker, total.inputs) if is_op(v, "ReduceMean")), None)
    square = _maker(variance.inputs[0]) if variance is not None else None
    if variance is None or square is None or difference is None or not _is_square(square):
        return None
    made = _maker(difference)
    mean = _maker(made.inputs[1]) if made is not None else None
    if mean is None:
        return None
    return _Parts(mean=mean, difference=difference, square=square, variance=variance, total=total, root=root)


def _quotient(node: ir.Node) -> tuple[ir.Value | None, ir.Value | None]:
    """What is divided by what, by Div or as a product with a reciprocal."""
    if is_op(node, "Div"):
        return node.inputs[0], node.inputs[1]
    for value in node.inputs if is_op(node, "Mul") else ():
        below = _maker(value)
        if value is not None and below is not None and is_op(below, "Reciprocal"):
            return other_input(node, value), below.inputs[0]
    return None, None


def _is_root(node: ir.Node) -> bool:
    return is_op(node, "Sqrt") or (is_op(node, "Pow") and scalar(node.inputs[1]) == _HALF)


def _is_square(node: ir.Node) -> bool:
    if is_op(node, "Mul"):
        return node.inputs[0] is node.inputs[1] and _is_difference(node.inputs[0])
    return is_op(node, "Pow") and scalar(node.inputs[1]) == _TWO and _is_difference(node.inputs[0])


def _scale(node: ir.Node) -> str:
    """What is wrong with the scale that follows the quotient."""
    users = [use.node for use in node.outputs[0].uses()]
    scales = [user for user in users if is_op(user, "Mul")]
    if not scales:
        return "no scale follows"
    if len(users) > 1 or node.outputs[0].is_graph_output():
        return "something else reads the quotient"
    weight = other_input(scales[0], node.outputs[0])
    held = stored(weight)
    if held is not None and len(held.shape) > 1:
        return "its scale has more than one axis"
    shifted = any(is_op(use.node, "Add") for use in scales[0].outputs[0].uses())
    return "" if shifted else "no shift follows its scale"


def _maker(value: ir.Value | None) -> ir.Node | None:
    return value.producer() if value is not None else None


def _is_difference(value: ir.Value | None) -> bool:
    """Whether it is something less its own mean."""
    node = _maker(value)
    mean = _maker(node.inputs[1]) if node is not None and is_op(node, "Sub") else None
    return (
        node is not None
        and mean is not None
        and is_op(mean, "ReduceMean")
        and mean.inputs[0] is node.inputs[0]
    )
