"""What the rewrites to fewer bits have in common: which models they take, and what may be left out."""

from __future__ import annotations

import onnx_ir as ir

from ortune.graph.constants import stored
from ortune.model.graphs import nodes
from ortune.model.operators import STANDARD
from ortune.rewrites._base import Param

FAMILY = "fewer bits"
PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm")
RECURRENT = ("LSTM",)
LEAST_BYTES = 16 << 10
"""Weights that are worth quantising at all: below it a model's time is that of its calls."""

SHARE = 4
"""Of so many weights of products one must be such that a rewrite changes it, or trying it is not worth the time."""

_INTEGER = (
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul",
    "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "MatMulIntegerToFloat", "MatMulNBits",
)  # fmt: skip

LEAVE = Param(
    name="leave",
    kind="text",
    summary="operators that stay as they are, joined by +; the word ends means the first and the last product",
)


def weight_bytes(model: ir.Model, *kinds: str) -> int:
    """Bytes of the constant float32 weights of operators of these kinds."""
    found: dict[str, int] = {}
    for node in nodes(model):
        if node.op_type not in kinds or node.domain not in STANDARD:
            continue
        for value in node.inputs[1:3] if node.op_type in RECURRENT else node.inputs[1:2]:
            tensor = stored(value)
            if value is not None and tensor is not None and tensor.dtype == ir.DataType.FLOAT:
                found[value.name or ""] = tensor.nbytes
    return sum(found.values())


def is_small_share(model: ir.Model, held: int) -> bool:
    """Whether most weights are those of other products: then little of the time is in these."""
    return held * SHARE < weight_bytes(model, *PRODUCTS, *RECURRENT)


def holds_quantised(model: ir.Model) -> bool:
    """Whether a model has integer operators already, or the casts to them."""
    return any(node.op_type in _INTEGER for node in nodes(model))


def refuses(model: ir.Model, *kinds: str) -> tuple[str, ...]:
    """Why there is nothing to quantise; empty where there is."""
    if holds_quantised(model):
        return ("the model holds quantised operators already",)
    if not weight_bytes(model, *kinds):
        return (
            f"no {', '.join(kinds[:-1])}{' or ' if kinds[:-1] else ''}{kinds[-1]} has constant float32 weights",
        )
    return ()


def megabytes(count: int) -> str:
    """Bytes of weights as the reasons of proposals say them."""
    return f"{count / 2**20:.1f} MiB of float32 weights"
