"""A scale or shift could be folded into adjacent weights.

What it is: Mul, Add, Sub or Div by a constant next to a layer with constant weights (Conv, Gemm, MatMul), or
    BatchNormalization before one. ONNX Runtime does not fold this form.
Why it costs: each reads and writes the whole tensor, although it could be folded into weights and bias. Next to a
    convolution it also interrupts the blocked layout (NCHWc): the tensor is converted out of it and back.
Evidence: the nodes. ONNX Runtime 1.31 keeps each form in its optimised graph: all forms before a layer; after a Conv,
    only Sub, Div, Add of a single number, and Mul by a tensor of shape [1].
Fix and its safety: exact: the rewrite ``affine-into-weights``.
Example: ``--rewrite affine-into-weights``
References: Jacob et al., "Quantization and Training of Neural Networks", 2018, section 3.2 (folding);
    microsoft/onnxruntime#12522.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.nodes import is_op, with_operator
from ortune.records import Finding
from ortune.rewrites import PRODUCTS, gelu, hard_swish
from ortune.rewrites.affine_into_weights import REWRITE, absorbable
from ortune.rules._fixes import with_fix
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "GRA016"

_HEAD = """
<ir_version: 8, opset_import: ["" : 17]>
scaled (float[1,2,4,4] x) => (float[1,2,4,4] y)
<float[2,2,1,1] w = {1,2,3,4}, float[2,1,1] k = {2,3}>
{"""

BAD = f"""{_HEAD}
    [bad_scale] s = Mul (x, k)
    y = Conv (s, w)
}}
"""
GOOD = f"""{_HEAD}
    c = Conv (x, w)
    y = Mul (c, k)
}}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on scales and shifts that could be folded into adjacent weights."""
    if facts.model is None:
        return
    # Parts of an unfused activation are reported by its own rule.
    others = {end for module in (hard_swish, gelu) for end in module.PATTERN.ends(facts.model.ir)}
    products = with_operator(facts.model.ir, *PRODUCTS)
    scales = [
        scale
        for product in products
        for scale in absorbable(product)
        if scale not in others and not _normalises(scale, product)
    ]
    if scales:
        finding = Finding(
            code=CODE,
            what=f"{counted(scales)} could be folded into adjacent weights",
            where=tuple(dict.fromkeys(map(name_of, scales))),
        )
        yield with_fix(REWRITE, finding, facts)


def _normalises(scale: ir.Node, product: ir.Node) -> bool:
    """Return whether a node is the BatchNormalization after a product, which has its own rule."""
    return is_op(scale, "BatchNormalization") and scale.inputs[0] is product.outputs[0]
