"""MatMul and Add are not fused into Gemm.

What it is: MatMul with constant weights followed by Add, in a form that ONNX Runtime does not fuse into Gemm.
Why it costs: the intermediate tensor is written and read once more.
Evidence: the nodes, and what prevents the fusion: another node reads the product, the bias has the wrong shape, or a
    tensor with more than two axes has dynamic dimensions. ONNX Runtime 1.31 keeps each form in its optimised graph.
Fix and its safety: advice: use a one-dimensional bias; or fix the dimensions with the rewrite ``fixed-dimensions``
    where they never change.
Example: ``--rewrite fixed-dimensions:batch=1``
References: ONNX Runtime documentation, "Graph optimizations" ("MatMul Add fusion").
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.constants import constant_tensor
from ortune.graph.nodes import is_op, only_user, other_input, with_operator
from ortune.records import Finding
from ortune.rules._words import name_of, subject
from ortune.rules.facts import Facts

CODE = "GRA021"
TIER = "if-measured"

_HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
_BODY = """
<float[2,2] w = {1,2,3,4}, float[2] b = {1,2}>
{
    [bad_product] p = MatMul (x, w)
    y = Add (p, b)
}
"""

BAD = f"{_HEAD}\nopen (float[batch,tokens,2] x) => (float[batch,tokens,2] y){_BODY}"
GOOD = f"{_HEAD}\nfixed (float[4,2] x) => (float[4,2] y){_BODY}"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on MatMul nodes that are not fused with their bias."""
    products = with_operator(facts.model.ir, "MatMul") if facts.model else ()
    why = {node: reason for node in products if (reason := _reason(node))}
    if why:
        yield Finding(
            code=CODE,
            severity="note",
            what=f"{subject([*why], 'is', 'are')} not fused with the following Add into Gemm",
            where=tuple(map(name_of, why)),
            evidence="; ".join(dict.fromkeys(why.values())),
            fix="use a one-dimensional bias, or fix the dynamic dimensions",
        )


def _reason(node: ir.Node) -> str:
    """Return a clause that says why a product is not fused with its bias; "" if it is fused or has no bias."""
    product, weight = node.outputs[0], _sizes(node.inputs[1])
    sums = [use.node for use in product.uses() if is_op(use.node, "Add")]
    bias = _sizes(other_input(sums[0], product)) if sums else None
    if bias is None or weight is None or len(weight) != 2:
        return ""
    if only_user(product) is None:
        return "another node reads the product"
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    # A product of two axes can also be fused with a column or a full matrix; assume so if the number of axes
    # is unknown.
    table = len(bias) == 2 and (shape is None or len(shape) == 2)
    if bias != weight[1:] and not table:
        return f"the bias has shape {list(bias)}"
    unplanned = shape is not None and len(shape) > 2 and not shape.is_static()
    return "the input has more than two axes and dynamic dimensions" if unplanned else ""


def _sizes(value: ir.Value | None) -> tuple[int, ...] | None:
    """Return the sizes of a constant without reading it; None for other values."""
    tensor = constant_tensor(value)
    return None if tensor is None else tuple(map(int, tensor.shape.numpy()))
