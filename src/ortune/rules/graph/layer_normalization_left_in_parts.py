"""A layer normalisation is spelled out in a form that is not fused.

What it is: mean, difference, square, mean, root and quotient, which ONNX Runtime would make one LayerNormalization,
    were they not written in a form that it does not know.
Why it costs: nine passes over the tensor in place of one.
Evidence: the nodes, and what keeps them from being fused: the axis, the square, the root, the quotient, or the scale.
    Each of these forms was seen to stay in the optimised graph of ONNX Runtime 1.31.
Fix and its safety: advice: export with opset 17 or later, where LayerNormalization is an operator.
Example: ``torch.onnx.export(..., opset_version=17)``
References: ONNX operator documentation, "LayerNormalization"; microsoft/onnxruntime#12916, #21332.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.analysis.constraints import constant
from ortune.model.graphs import nodes
from ortune.records import Finding
from ortune.rewrites._graph import is_op, least_rank, other_input, scalar
from ortune.rewrites.layer_normalization import REWRITE
from ortune.rules._fixes import mended_by
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "GRA011"

_HALF, _TWO = 0.5, 2.0

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
    why = {node: reason for node in nodes(facts.model.ir) if (reason := _reason(node))} if facts.model else {}
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


def _reason(node: ir.Node) -> str:
    """Why a quotient that ends a layer normalisation is not fused; "" where it is, or is none."""
    parts = _parts(node)
    if parts is None:
        return ""
    difference, root, variance, square = parts
    axes = _axes(variance)
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
    return next((reason for reason, holds in unknown.items() if holds), _scale(node) if last else "")


def _parts(node: ir.Node) -> tuple[ir.Value, ir.Node, ir.Node, ir.Node] | None:
    """Difference, root, variance and square of the layer normalisation that a node ends; None where it ends none."""
    difference, below = _quotient(node)
    root = _maker(below)
    total = _maker(root.inputs[0]) if root is not None and _is_root(root) else None
    if root is None or total is None or not is_op(total, "Add") or not _is_difference(difference):
        return None
    variance = next((v for v in map(_maker, total.inputs) if is_op(v, "ReduceMean")), None)
    square = _maker(variance.inputs[0]) if variance is not None else None
    if variance is None or square is None or difference is None or not _is_square(square):
        return None
    return difference, root, variance, square


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
    weight = other_input(scales[0], node.outputs[0])
    held = weight.const_value if weight is not None else None
    return "its scale has more than one axis" if held is not None and len(held.shape) > 1 else ""


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


def _axes(node: ir.Node) -> list[int] | None:
    given = node.attributes.get("axes")
    if given is not None and not given.is_ref():
        return list(given.as_ints())
    found = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    return None if found is None else [int(axis) for axis in found.ravel()]
