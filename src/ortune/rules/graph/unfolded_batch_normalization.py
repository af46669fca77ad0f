"""A BatchNormalization follows a layer that could absorb it.

What it is: BatchNormalization after Gemm, or after an Add that follows MatMul or ConvTranspose, with constant weights.
Why it costs: one extra pass over the tensor, although the operation could be folded into the weights and bias. ONNX
    Runtime folds BatchNormalization only if it directly follows Conv, ConvTranspose or MatMul.
Evidence: the nodes. ONNX Runtime 1.32 keeps them in its optimised graph.
Fix and its safety: exact: the rewrite ``affine-into-weights``, after Gemm, and after ConvTranspose and Add. Advice
    after MatMul and Add: fold it at export.
Example: ``torch.nn.utils.fusion.fuse_linear_bn_eval``
References: Jacob et al., "Quantization and Training of Neural Networks", 2018, section 3.2 (folding);
    microsoft/onnxruntime#12522.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.attributes import int_of
from ortune.graph.constants import is_constant
from ortune.graph.nodes import is_op, only_user, with_operator
from ortune.graph.ort_fusions import folds_behind
from ortune.records import Finding
from ortune.rewrites import PRODUCTS
from ortune.rewrites.affine_into_weights import REWRITE, scale_after
from ortune.rules._fixes import fixed_by
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
    """Yield a finding on BatchNormalization nodes that could be folded into the preceding weights."""
    if facts.model is None:
        return
    norms = with_operator(facts.model.ir, "BatchNormalization")
    folded = {scale_after(node): node for node in with_operator(facts.model.ir, *PRODUCTS)} if norms else {}
    matches = [
        node
        for node in norms
        if _beyond_a_bias(node) or (node in folded and not folds_behind(folded[node], node))
    ]
    if matches:
        finding = Finding(
            code=CODE,
            what=f"{counted(matches)} could be folded into the preceding weights",
            where=tuple(map(name_of, matches)),
            fix="fold BatchNormalization into the weights at export",
        )
        yield fixed_by(REWRITE, finding, facts)


def _beyond_a_bias(norm: ir.Node) -> bool:
    """Return whether a BatchNormalization follows a product with constant weights after a separate bias."""
    bias = _producer_with_one_reader(norm.inputs[0])
    if not is_op(bias, "Add") or bias is None or int_of(norm, "training_mode", 0):
        return False
    products = [maker for value in bias.inputs if (maker := _producer_with_one_reader(value)) is not None]
    return any(
        is_op(product, "ConvTranspose", "MatMul") and is_constant(product.inputs[1]) for product in products
    )


def _producer_with_one_reader(value: ir.Value | None) -> ir.Node | None:
    return value.producer() if value is not None and only_user(value) is not None else None
