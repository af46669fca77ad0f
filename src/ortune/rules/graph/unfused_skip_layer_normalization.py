"""Add and LayerNormalization are not fused into SkipLayerNormalization.

What it is: Add of two tensors followed by LayerNormalization, in a form that ONNX Runtime does not fuse into
    SkipLayerNormalization.
Why it costs: the sum is written and read once more.
Evidence: the nodes, and what prevents the fusion: another node reads the sum, the number of axes, an axis that is not
    the last, or operands of different shapes. ONNX Runtime 1.31 keeps each form in its optimised graph.
Fix and its safety: advice: give the sum a single reader, or make the operand shapes equal. A pre-norm transformer reads
    the sum twice by design.
Example: ``python -m onnxruntime.transformers.optimizer --input model.onnx --output fused.onnx --model_type vit``
References: ONNX Runtime contrib operators, "SkipLayerNormalization"; microsoft/onnxruntime#12916.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.attributes import int_of
from ortune.graph.constants import constant
from ortune.graph.nodes import is_op, only_user, with_operator
from ortune.records import Finding
from ortune.rules._words import name_of, subject
from ortune.rules.facts import Facts

CODE = "GRA020"
TIER = "if-measured"

_AXES = 3
_HEAD = """
<ir_version: 8, opset_import: ["" : 17]>
residual (float[2,4,8] x, float[2,4,8] r) => (float[2,4,8] y, float[2,4,8] z)
<float[8] s = {1,1,1,1,1,1,1,1}, float[8] b = {0,0,0,0,0,0,0,0}>
{
    [bad_sum] a = Add (x, r)
    y = LayerNormalization <axis = -1> (a, s, b)"""

BAD = f"""{_HEAD}
    z = Relu (a)
}}
"""
GOOD = f"""{_HEAD}
    z = Relu (x)
}}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on sums that are not fused with the LayerNormalization that follows."""
    sums = with_operator(facts.model.ir, "Add") if facts.model else ()
    why = {node: reason for node in sums if (reason := _reason(node))}
    if why:
        yield Finding(
            code=CODE,
            severity="note",
            what=f"{subject([*why], 'is', 'are')} not fused with the following LayerNormalization",
            where=tuple(map(name_of, why)),
            evidence="; ".join(dict.fromkeys(why.values())),
            fix="remove other readers of the sum, if the model allows it",
        )


def _reason(node: ir.Node) -> str:
    """Return a clause that says why a sum is not fused with the next LayerNormalization; "" without a reason."""
    total = node.outputs[0]
    norms = [use.node for use in total.uses() if is_op(use.node, "LayerNormalization") and use.idx == 0]
    # The sum with a constant is a bias, not a residual connection.
    if not norms or any(constant(value) is not None for value in node.inputs):
        return ""
    if only_user(total) is None:
        return "another node reads the sum"
    shapes = [value.shape for value in node.inputs if value is not None]
    if any(shape is None for shape in shapes):
        return ""
    first, second = (list(shape or ()) for shape in shapes)
    if len(first) != len(second) or first != second:
        return "the operands have different shapes"
    if len(first) != _AXES:
        return f"{len(first)} axes instead of {_AXES}"
    axis = int_of(norms[0], "axis", -1)
    return f"normalises from axis {axis}, not over the last axis only" if axis not in (-1, _AXES - 1) else ""
