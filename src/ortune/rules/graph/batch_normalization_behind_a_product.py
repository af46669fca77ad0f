"""A batch normalisation stands behind a product that could take it up.

What it is: BatchNormalization after Gemm, or after MatMul and Add, with weights that are constant.
Why it costs: a pass over the tensor for what could be part of weights and bias. ONNX Runtime folds it into a
    convolution and into a bare MatMul, and leaves it behind these.
Evidence: the nodes. The graph that ONNX Runtime 1.31 optimises keeps them.
Fix and its safety: exact: the rewrite ``affine-into-weights``, behind a Gemm. Advice where the bias is an Add of its
    own: fold it at export, where weights and bias are still at hand.
Example: ``torch.nn.utils.fusion.fuse_linear_bn_eval``
References: Jacob et al., "Quantization and Training of Neural Networks", 2018, section 3.2 (folding);
    microsoft/onnxruntime#12522.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.attributes import int_of
from ortune.graph.constants import is_constant
from ortune.graph.nodes import is_op, only_user
from ortune.model.graphs import nodes
from ortune.records import Finding
from ortune.rewrites.affine_into_weights import REWRITE
from ortune.rules._fixes import mended_by
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "GRA014"

_HEAD = """
<ir_version: 8, opset_import: ["" : 17]>
dense (float[4,2] x) => (float[4,2] y)
<float[2,2] w = {1,2,3,4}, float[2] s = {1,2}, float[2] b = {0,1}, float[2] m = {1,1}, float[2] v = {1,2}>
{"""

BAD = f"""{_HEAD}
    p = Gemm (x, w)
    [bad_norm] y = BatchNormalization (p, s, b, m, v)
}}
"""
GOOD = f"""{_HEAD}
    p = MatMul (x, w)
    y = BatchNormalization (p, s, b, m, v)
}}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Everywhere in the model."""
    walked = nodes(facts.model.ir) if facts.model else ()
    found = [node for node in walked if is_op(node, "BatchNormalization") and _behind(node)]
    if found:
        finding = Finding(
            code=CODE,
            what=f"behind a product that could take them up: {counted(found)}",
            where=tuple(map(name_of, found)),
            fix="fold them into the weights at export",
        )
        yield mended_by(REWRITE, finding, facts)


def _behind(node: ir.Node) -> bool:
    """Whether a product with constant weights gives what the node takes, straight or through a bias, to it alone."""
    if int_of(node, "training_mode", 0):
        return False
    before = _alone(node.inputs[0])
    if before is not None and is_op(before, "Add"):
        products = [maker for value in before.inputs if (maker := _alone(value)) is not None]
        before = next((each for each in products if is_op(each, "MatMul")), None)
        return before is not None and _held(before)
    return before is not None and is_op(before, "Gemm") and _held(before)


def _alone(value: ir.Value | None) -> ir.Node | None:
    return value.producer() if value is not None and only_user(value) is not None else None


def _held(node: ir.Node) -> bool:
    return is_constant(node.inputs[1])
