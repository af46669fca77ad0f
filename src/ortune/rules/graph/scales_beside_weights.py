"""A scale or shift could be folded into adjacent weights.

What it is: Mul, Add, Sub or Div by a constant next to a layer with constant weights (Conv, Gemm, MatMul), or
    BatchNormalization before one. ONNX Runtime does not fold this form.
Why it costs: each reads and writes the whole tensor, although it could be folded into weights and bias. Next to a
    convolution it also interrupts the blocked layout (NCHWc): the tensor is converted out of it and back.
Evidence: the nodes. Each form stays in the graph that ONNX Runtime 1.31 optimises: all forms before a layer; after a
    Conv those with a single number, subtractions and divisions.
Fix and its safety: exact: the rewrite ``affine-into-weights``.
Example: ``--rewrite affine-into-weights``
References: Jacob et al., "Quantization and Training of Neural Networks", 2018, section 3.2 (folding);
    microsoft/onnxruntime#12522.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from ortune.graph.constants import constant
from ortune.graph.nodes import is_op, only_user
from ortune.model.graphs import nodes
from ortune.records import Finding
from ortune.rewrites import PRODUCTS, gelu, hard_swish
from ortune.rewrites.affine_into_weights import REWRITE, after, before
from ortune.rules._fixes import sure_of
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
    """Everywhere in the model."""
    if facts.model is None:
        return
    # The quotient or half of an activation, which is told of as a whole.
    others = {end for module in (hard_swish, gelu) for end in module.PATTERN.ends(facts.model.ir)}
    products = [node for node in nodes(facts.model.ir) if is_op(node, *PRODUCTS)]
    scales = [scale for node in products for scale in _beside(node) if scale not in others]
    if scales:
        finding = Finding(
            code=CODE,
            what=f"{counted(scales)} could be folded into adjacent weights",
            where=tuple(dict.fromkeys(map(name_of, scales))),
        )
        yield sure_of(REWRITE, finding, facts)


def _beside(product: ir.Node) -> Iterator[ir.Node]:
    """What stands before and behind a product, stays there, and could go into its weights."""
    # A bare product of matrices has no bias for a shift.
    operators = ("Mul", "Div") if is_op(product, "MatMul") else ("Mul", "Div", "Add", "Sub")
    user = only_user(product.outputs[0])
    if user is not None and is_op(user, *operators) and not _folded(product, user) and after(product):
        yield user
    source = product.inputs[0].producer() if product.inputs[0] is not None else None
    if source is None or not is_op(source, "BatchNormalization", *operators):
        return
    if not _joined(product, source) and not _taken_up(source) and before(product):
        yield source


def _taken_up(scale: ir.Node) -> bool:
    """Returns whether a product before a scale takes it up instead: in ONNX Runtime, or as another rule tells."""
    makers = [value.producer() for value in scale.inputs if value is not None and only_user(value) is scale]
    product = next((maker for maker in makers if maker is not None and is_op(maker, *PRODUCTS)), None)
    if product is None or constant(product.inputs[1]) is None:
        return False
    return is_op(scale, "BatchNormalization") or _folded(product, scale)


def _folded(product: ir.Node, scale: ir.Node) -> bool:
    """Returns whether ONNX Runtime folds a scale or shift behind a product by itself."""
    if not is_op(product, "Conv") or not is_op(scale, "Mul", "Add"):
        return _joined(product, scale)
    numbers, weight = _numbers(scale), constant(product.inputs[1])
    # As ConvMulFusion and ConvAddFusion have it: a single number is folded by the first alone; of more there
    # is one for each output channel, on the axis of channels.
    if numbers is None or weight is None or numbers.ndim == 0:
        return is_op(scale, "Mul")
    return numbers.ndim >= weight.ndim - 1 and numbers.size == weight.shape[0]


def _joined(product: ir.Node, scale: ir.Node) -> bool:
    """Returns whether ONNX Runtime makes FusedMatMul of the two: a matrix product and one number."""
    numbers = _numbers(scale)
    one_number = numbers is not None and numbers.ndim == 0
    return is_op(product, "MatMul") and is_op(scale, "Mul", "Div") and one_number


def _numbers(node: ir.Node) -> np.ndarray | None:
    """The constant that a node takes."""
    constants = [numbers for value in node.inputs if (numbers := constant(value)) is not None]
    return constants[0] if constants else None
