"""A Gelu is spelled out in a form that is not fused.

What it is: Erf with a sum and products around it, which ONNX Runtime would make one Gelu, were they written in the
    order and with the constants that it knows; or Tanh in place of Erf, which it leaves as it is on a CPU.
Why it costs: five passes over the tensor in place of one.
Evidence: the nodes, and what keeps them from being fused: how the argument is scaled, the order of products, a
    quotient by two, or a second reader between. Each of these forms was seen to stay in the optimised graph of ONNX
    Runtime 1.31.
Fix and its safety: exact: the rewrite ``gelu``, where nothing else reads what is between; else advice: export with
    opset 20 or later, where Gelu is an operator.
Example: ``torch.onnx.export(..., opset_version=20)``
References: ONNX operator documentation, "Gelu"; microsoft/onnxruntime#21332.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.constants import scalar
from ortune.graph.nodes import is_op, only_user, other_input
from ortune.model.graphs import nodes
from ortune.records import Finding
from ortune.rewrites.gelu import REWRITE, written_out
from ortune.rules._fixes import mended_by
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "GRA012"

_NEAR = 1e-4  # of the root of two, as exporters round it
_CLOSE = 1e-2
_HALF, _TWO = 0.5, 2.0

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
    walked = [*nodes(facts.model.ir)] if facts.model else []
    why = {node: reason for node in walked if is_op(node, "Erf") and (reason := _reason(node))}
    if facts.provider.cpu_kernels:
        why |= dict.fromkeys(
            (node for node in walked if _by_tanh(node)), "it is made with Tanh, which is fused on a GPU alone"
        )
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
    scaled = node.inputs[0].producer() if node.inputs[0] is not None else None
    factor = _factor(scaled)
    x = next((v for v in scaled.inputs if scalar(v) is None), None) if scaled is not None else None
    total = _sum(node)
    product = _product(total, x)
    if scaled is None or factor is None or x is None or total is None or product is None:
        return ""
    if scaled.op_type == "Mul":
        return "the argument is multiplied by the root of one half, not divided by that of two"
    if abs(factor - math.sqrt(2)) > _NEAR:
        return f"{factor:g} in place of the root of two"
    between = {
        "the argument of Erf": scaled.outputs[0],
        "what Erf gives": node.outputs[0],
        "the sum behind Erf": total.outputs[0],
    }
    read = next((name for name, value in between.items() if only_user(value) is None), "")
    return f"something else reads {read}" if read else _half(product, x)


def _half(product: ir.Node, x: ir.Value) -> str:
    """What is wrong with where half comes in."""
    first = any(scalar(value) is not None for value in product.inputs)
    return "half is multiplied in first" if first else _last(product, x)


def _last(product: ir.Node, x: ir.Value) -> str:
    """What is wrong with the half that comes last, where it does."""
    if x not in product.inputs:
        return ""
    value = product.outputs[0]
    users = [use.node for use in value.uses()]
    if any(is_op(user, "Div") and scalar(user.inputs[1]) == _TWO for user in users):
        return "a quotient by two in place of a product with one half"
    halves = any(is_op(user, "Mul") and scalar(other_input(user, value)) == _HALF for user in users)
    return "something else reads the product behind Erf" if halves and only_user(value) is None else ""


def _factor(scaled: ir.Node | None) -> float | None:
    """What the argument of Erf is divided by, or multiplied with, where that is near what a Gelu has."""
    if scaled is None or not is_op(scaled, "Div", "Mul"):
        return None
    found = [factor for value in scaled.inputs if (factor := scalar(value)) is not None]
    root = math.sqrt(2) if scaled.op_type == "Div" else math.sqrt(0.5)
    return found[0] if len(found) == 1 and abs(found[0] - root) <= _CLOSE else None


def _sum(node: ir.Node) -> ir.Node | None:
    """What adds one to the output of Erf or Tanh."""
    sums = [use.node for use in node.outputs[0].uses() if is_op(use.node, "Add")]
    return sums[0] if sums and scalar(other_input(sums[0], node.outputs[0])) == 1 else None


def _product(total: ir.Node | None, x: ir.Value | None) -> ir.Node | None:
    """What multiplies that sum with half, with ``x``, or with half of ``x``."""
    for use in total.outputs[0].uses() if total is not None else ():
        assert total is not None
        other = other_input(use.node, total.outputs[0]) if is_op(use.node, "Mul") else None
        maker = other.producer() if other is not None else None
        halved = maker is not None and is_op(maker, "Mul") and x in maker.inputs
        if other is not None and (other is x or halved or scalar(other) == _HALF):
            return use.node
    return None


def _by_tanh(node: ir.Node) -> bool:
    """Whether it is the Tanh of a Gelu: of a number and the root of two over pi, behind a sum with its cube."""
    given = node.inputs[0] if is_op(node, "Tanh") else None
    scaled = given.producer() if given is not None else None
    if scaled is None or not is_op(scaled, "Mul"):
        return False
    factors = [factor for value in scaled.inputs if (factor := scalar(value)) is not None]
    return (
        any(abs(factor - math.sqrt(2 / math.pi)) <= _NEAR for factor in factors)
        and written_out(node) is not None
    )
