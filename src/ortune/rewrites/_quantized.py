"""Code shared by the rewrites to fewer bits: the models that they accept, and the layers that may be excluded."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from ortune.graph.constants import stored
from ortune.graph.groups import layer_groups
from ortune.graph.model.graphs import nodes
from ortune.graph.model.operators import STANDARD
from ortune.printable import amount
from ortune.rewrites._affine import PRODUCTS
from ortune.rewrites._base import Param
from ortune.rewrites._kept_float import keep_float
from ortune.rewrites._mended_pairs import mend_pairs

FAMILY = "fewer bits"
PREPARE = "quantize-prepare"
"""Task that infers shapes and fuses nodes, as ONNX Runtime's quantizers require."""
RECURRENT = ("LSTM",)
LEAST_BYTES = 16 << 10
"""Minimum bytes of weights worth quantizing; in smaller models, call overhead dominates the time."""

SHARE = 4
"""A rewrite is not tried if it changes less than 1/SHARE of the weight bytes of all convolutions and MatMuls."""

_INTEGER = (
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul",
    "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "MatMulIntegerToFloat", "MatMulNBits",
)  # fmt: skip

_CONVERSIONS = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")

RANGE = Param(
    name="range",
    kind="choice",
    default="8",
    choices=("8", "7"),
    summary="bits of a weight that are used: with 7, pairs of products do not saturate on x86 without VNNI",
)

LEAVE = Param(
    name="leave",
    kind="text",
    summary="what stays in float32, joined by +: operators, layers by node name (each with the operators "
    "that follow it), or ends (the first and the last layer)",
)


def layers_left(model: ir.Model, leave: str) -> tuple[str, list[str]]:
    """Split ``leave`` into (the part for the quantizer, the layer groups to revert to float afterwards)."""
    groups = {group.name for group in layer_groups(model)}
    words = [word for word in leave.split("+") if word]
    layers = [word for word in words if word in groups]
    return "+".join(word for word in words if word not in groups), layers


def finish(
    model: ir.Model, floats: ir.Model, quantized: ir.Model, layers: Collection[str], *, mends: bool
) -> tuple[str, ...]:
    """Revert layer groups of a quantized model to float and, if ``mends``, repair the quantizer's output.

    Args:
        model: The model before quantization.
        floats: The model after the quantizer's preparation.
        quantized: The quantized model, changed in place.
        layers: Names of the layer groups to revert.
        mends: Whether to repair the output of ONNX Runtime's static quantizer.

    Returns:
        One clause for each kind of change.
    """
    said = []
    if layers:
        groups = layer_groups(model)
        kept, others = (
            frozenset().union(*(g.values for g in groups if (g.name in layers) == chosen))
            for chosen in (True, False)
        )
        keep_float(quantized, floats, kept, others)
        said.append(f"{amount(len(layers), 'layer')} kept in float")
    return (*said, *(mend_pairs(quantized, floats) if mends else ()))


def weight_bytes(model: ir.Model, *kinds: str) -> int:
    """Return the total bytes of the distinct constant float32 weights of the given operators."""
    bytes_of: dict[str, int] = {}
    for node in nodes(model):
        if node.op_type not in kinds or node.domain not in STANDARD:
            continue
        for value in node.inputs[1:3] if node.op_type in RECURRENT else node.inputs[1:2]:
            tensor = stored(value)
            if value is not None and tensor is not None and tensor.dtype == ir.DataType.FLOAT:
                bytes_of[value.name or ""] = tensor.nbytes
    return sum(bytes_of.values())


def is_small_share(model: ir.Model, n_bytes: int) -> bool:
    """Return whether ``n_bytes`` is a small fraction of all products' weight bytes, and so presumably of the time."""
    return n_bytes * SHARE < weight_bytes(model, *PRODUCTS, *RECURRENT)


def holds_quantised(model: ir.Model) -> bool:
    """Return whether a model already contains quantized operators."""
    return any(node.op_type in _INTEGER for node in nodes(model))


def in_fewer_bits(node: ir.Node) -> bool:
    """Return whether a node of a quantized model computes in fewer bits, or reads a DequantizeLinear."""
    if node.op_type in _CONVERSIONS:
        return False
    producers = (value.producer() for value in node.inputs if value is not None)
    return node.op_type in _INTEGER or any(
        p is not None and p.op_type == "DequantizeLinear" for p in producers
    )


def refuses(model: ir.Model, *kinds: str) -> tuple[str, ...]:
    """Return the reasons that a model cannot be quantized; empty if it can."""
    if holds_quantised(model):
        return ("the model already has quantized operators",)
    if not weight_bytes(model, *kinds):
        return (
            f"no {', '.join(kinds[:-1])}{' or ' if kinds[:-1] else ''}{kinds[-1]} has constant float32 weights",
        )
    return ()


def megabytes(count: int) -> str:
    """Format a number of weight bytes in MB for the reason of a proposal."""
    return f"{count / 2**20:.1f} MiB of float32 weights"
