"""A Gelu is spelled out in a form that is not fused.

What it is: Erf with a sum and products around it, which ONNX Runtime would make one Gelu, were they written in the
    order and with the constants that it knows.
Why it costs: five passes over the tensor in place of one.
Evidence: the nodes, and what keeps them from being fused: how the argument is scaled, the order of products, or a
    second reader between. Each of these forms was seen to stay in the optimised graph of ONNX Runtime 1.31.
Fix and its safety: advice: export with opset 20 or later, where Gelu is an operator.
Example: ``torch.onnx.export(..., opset_version=20)``
References: ONNX operator documentation, "Gelu"; microsoft/onnxruntime#21332.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import onnx_ir as ir

from ortune.model.graphs import nodes
from ortune.records import Finding
from ortune.rewrites._graph import is_op, only_user, other_input, scalar
from ortune.rewrites.gelu import REWRITE
from ortune.rules._fixes import mended_by
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "GRA012"

_NEAR = 1e-4  # of the root of two, as exporters round it
_CLOSE = 1e-2

BAD = """
<ir_version: 8, opset_import: ["" : 16]>
half_first (float[2,8] x) => (float[2,8] y)
{
    c = Constant <value = float {1.41421356}> ()
    d = Div (x, c)
    [bad_erf] f = Erf (d)
    one = Constant <value = float {1.0}> ()
    a = Add (f, one)
    h = Constant <value = float {0.5}> ()
    m = Mul (a, h)
    y = Mul (x, m)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 16]>
half_last (float[2,8] x) => (float[2,8] y)
{
    c = Constant <value = float {1.41421356}> ()
    d = Div (x, c)
    f = Erf (d)
    one = Constant <value = float {1.0}> ()
    a = Add (f, one)
    m = Mul (x, a)
    h = Constant <value = float {0.5}> ()
    y = Mul (m, h)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Everywhere in the model."""
    why = {node: reason for node in nodes(facts.model.ir) if (reason := _reason(node))} if facts.model else {}
    if why:
        finding = Finding(
            code=CODE,
            what=f"Gelus that are not fused: {counted([*why])}",
            where=tuple(map(name_of, why)),
            evidence="; ".join(dict.fromkeys(why.values())),
            fix="export with opset 20 or later",
        )
        yield mended_by(REWRITE, finding, facts)


def _reason(node: ir.Node) -> str:
    """Why an Erf in a Gelu is not fused; "" where it is, or is in none."""
    scaled = node.inputs[0].producer() if is_op(node, "Erf") and node.inputs[0] is not None else None
    factor = _factor(scaled)
    product = _product(node)
    if scaled is None or factor is None or product is None:
        return ""
    if scaled.op_type == "Mul":
        return "the argument is multiplied by the root of one half, not divided by that of two"
    if abs(factor - math.sqrt(2)) > _NEAR:
        return f"{factor:g} in place of the root of two"
    if only_user(node.outputs[0]) is None:
        return "something else reads what Erf gives"
    halved = any(scalar(value) is not None for value in product.inputs)
    return "half is multiplied in first" if halved else ""


def _factor(scaled: ir.Node | None) -> float | None:
    """What the argument of Erf is divided by, or multiplied with, where that is near what a Gelu has."""
    if scaled is None or not is_op(scaled, "Div", "Mul"):
        return None
    found = [factor for value in scaled.inputs if (factor := scalar(value)) is not None]
    root = math.sqrt(2) if scaled.op_type == "Div" else math.sqrt(0.5)
    return found[0] if len(found) == 1 and abs(found[0] - root) <= _CLOSE else None


def _product(node: ir.Node) -> ir.Node | None:
    """What multiplies one and the output of Erf with something."""
    sums = [use.node for use in node.outputs[0].uses() if is_op(use.node, "Add")]
    if not sums or scalar(other_input(sums[0], node.outputs[0])) != 1:
        return None
    product = only_user(sums[0].outputs[0])
    return product if product is not None and is_op(product, "Mul") else None
