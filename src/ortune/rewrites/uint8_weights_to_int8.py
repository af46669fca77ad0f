"""Stores quantized uint8 weights as int8, shifted by 128 together with their zero points.

What it is: weight and zero point of a quantized Conv, MatMul or Gemm are both reduced by 128, so their difference is
    unchanged. Other uint8 values stay, because Add and Concat need both operands in one type.
Why it costs: VNNI and AMX multiply uint8 activations by int8 weights. For uint8 weights ONNX Runtime has kernels that
    widen to 16 bits, or flips the top bit of every weight before a product.
Evidence: constant uint8 weights of quantized products.
Fix and its safety: numerics: by the ONNX standard outputs are bit-identical, but on x86 CPUs without VNNI they are not.
    Keep uint8 there: sums of two products saturate at 16 bits with int8 weights, but not with uint8 weights.
Example: ``--rewrite uint8-weights-to-int8``
References: ONNX Runtime documentation, "Quantize ONNX models", section on data types; ONNX operators
    ``DequantizeLinear`` and ``MatMulInteger``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ortune.graph.constants import constant_tensor
from ortune.graph.model.graphs import nodes
from ortune.graph.nodes import input_of, is_op, operator
from ortune.printable import amount
from ortune.records import Workload
from ortune.rewrites._base import Proposed, Rewrite, RewriteResult, unchanged
from ortune.rewrites._editor import Editor

_PLACES = {
    "MatMulInteger": (1, 3),
    "QLinearConv": (3, 5),
    "QLinearMatMul": (3, 5),
    "com.microsoft:DynamicQuantizeMatMul": (1, 3),
    "com.microsoft:MatMulIntegerToFloat": (1, 5),
    "com.microsoft:QGemm": (3, 5),
}
"""Maps integer operators to the input positions of the weight and its zero point."""
_PRODUCTS = ("Conv", "Gemm", "MatMul")
_SHIFT = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weight:
    """A uint8 weight at a node that reads it; ``zero`` is None if the zero point is omitted."""

    node: ir.Node
    at: int
    zero_at: int
    stored: ir.TensorProtocol
    zero: ir.TensorProtocol | None


def _weights(model: ir.Model) -> Iterator[_Weight]:
    for node in nodes(model, functions=False):
        at, zero_at = _PLACES.get(operator(node), (-1, -1))
        if is_op(node, "DequantizeLinear") and _is_weight(node.outputs[0]):
            at, zero_at = 0, 2
        if at < 0:
            continue
        stored = constant_tensor(input_of(node, at))
        zero = constant_tensor(input_of(node, zero_at))
        computed = zero is None and input_of(node, zero_at) is not None
        if stored is not None and stored.dtype == ir.DataType.UINT8 and not computed:
            yield _Weight(node=node, at=at, zero_at=zero_at, stored=stored, zero=zero)


def _is_weight(value: ir.Value) -> bool:
    """Return whether a value is read only by integer products and only as their weight."""
    uses = list(value.uses())
    return (
        bool(uses)
        and not value.is_graph_output()
        and all(is_op(u.node, *_PRODUCTS) and u.idx == 1 for u in uses)
    )


def _shifted(tensor: ir.TensorProtocol) -> np.ndarray:
    # Subtract in 16 bits, since 0 - 128 wraps around in 8.
    return (tensor.numpy().astype(np.int16) - _SHIFT).astype(np.int8)


def _without_zero(weight: _Weight) -> np.ndarray:
    """Return the shifted zero point for a weight without one (0); for a DequantizeLinear, in the shape of its scale."""
    scale = constant_tensor(input_of(weight.node, 1)) if is_op(weight.node, "DequantizeLinear") else None
    shape = () if scale is None else tuple(scale.shape.numpy())
    return np.full(shape, -_SHIFT, np.int8)


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    weights = list(_weights(model))
    if not weights:
        return unchanged("no quantized product has constant uint8 weights")
    editor = Editor(model)
    converted: dict[tuple[ir.Value | None, ir.Graph | ir.Function | None], ir.Value] = {}

    def signed(weight: _Weight, at: int, tensor: ir.TensorProtocol | None) -> ir.Value:
        node, old = weight.node, input_of(weight.node, at)
        key = (old, node.graph)
        if tensor is None:
            return editor.constant(node, f"{node.name or node.op_type}_zero_int8", _without_zero(weight))
        if key not in converted:
            assert old is not None
            converted[key] = editor.constant(node, f"{old.name}_int8", _shifted(tensor))
        return converted[key]

    for weight in weights:
        node = weight.node
        olds = [input_of(node, weight.at), input_of(node, weight.zero_at)]
        values = [signed(weight, weight.at, weight.stored), signed(weight, weight.zero_at, weight.zero)]
        if len(node.inputs) <= weight.zero_at:
            node.resize_inputs(weight.zero_at + 1)
        node.replace_input_with(weight.at, values[0])
        node.replace_input_with(weight.zero_at, values[1])
        for old in olds:
            editor.drop(old)
    return RewriteResult(modified=True, what=f"Stored {amount(len(weights), 'uint8 weight')} as int8.")


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    n = sum(1 for _ in _weights(model))
    return [({}, f"{amount(n, 'uint8 weight')} of quantized products could be int8")] if n else []


REWRITE = Rewrite(
    name="uint8-weights-to-int8",
    summary="stores uint8 weights of quantized products as int8, shifted with their zero points",
    safety="numerics",
    hardware_bound=True,
    change=_change,
    proposes=_proposes,
)
