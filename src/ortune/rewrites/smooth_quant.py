"""Moves the ranges of activations into the weights that multiply them, before quantization.

What it is: MatMul and Gemm that read a normalisation or a product, directly or through Relu, Mul and Add. Each channel
    of the activation is divided by a power of two in the node that computes it. The matching rows of the following
    weights are multiplied by the same power. It is chosen from the largest values on calibration inputs (SmoothQuant,
    with a strength of one half).
Why it costs: an 8-bit activation has a single scale. In transformers, a few channels are a hundred times larger
    than the others, so the others use only two or three of the quantized values. Weights have one scale per channel
    and tolerate larger ranges.
Evidence: channels whose largest values differ by a factor of four or more; the error of the quantized model.
Fix and its safety: exact: powers of two only change exponents, so float outputs stay bit-identical. Float models do not
    become faster; ``ortune quantize`` tries this rewrite before ``static-int8``.
Example: ``ortune tune model.onnx --data samples --rewrite smooth-quant --rewrite static-int8``
References: Xiao et al., "SmoothQuant: Accurate and Efficient Post-Training Quantization for Large Language Models",
    2023.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortune.graph.constants import stored
from ortune.graph.nodes import is_op
from ortune.records import Workload
from ortune.rewrites._base import Proposed, Rewrite
from ortune.rewrites._marks import repair_saved
from ortune.rewrites._quantized import holds_quantised

_NOTHING = "no MatMul or Gemm with constant weights follows a normalisation or product"
_BEFORE = (
    "Add", "Gemm", "LayerNormalization", "MatMul", "Mul", "RMSNormalization", "Relu",
    "SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
)  # fmt: skip


def _refuses(model: ir.Model) -> tuple[str, ...]:
    if holds_quantised(model):
        return ("the model already has quantized operators",)
    return () if any(map(_may_move, model.graph)) else (_NOTHING,)


def _may_move(node: ir.Node) -> bool:
    """Return whether a product may absorb the scale of its input; the tool makes the final decision."""
    if not is_op(node, "MatMul", "Gemm") or stored(node.inputs[1]) is None or node.inputs[0] is None:
        return False
    source = node.inputs[0].producer()
    return source is not None and source.op_type in _BEFORE


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    """Return no proposals, since the rewrite does not make a model faster and helps only before quantization."""
    return []


REWRITE = Rewrite(
    name="smooth-quant",
    summary="moves the ranges of activations into weights, so channels have similar ranges before quantization",
    safety="exact",
    calibrated=True,
    task="smooth",
    refuses=_refuses,
    mends=repair_saved,
    proposes=_proposes,
)
