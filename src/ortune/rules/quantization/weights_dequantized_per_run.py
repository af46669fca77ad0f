"""8-bit weights are converted to float32 on every run.

What it is: constant weights behind DequantizeLinear, for an operator with float input that ONNX Runtime does not turn
    into MatMulNBits: a convolution, or a MatMul or Gemm that precedes a Relu or whose weights have one scale per row.
    Also weights of LSTM, GRU and RNN, and tables of Gather.
Why it costs: ONNX Runtime does not fold DequantizeLinear. All weights are converted on every run, and also take as much
    memory as in float32.
Evidence: the nodes. ONNX Runtime 1.32 keeps each form in its optimised graph.
Fix and its safety: numerics: the setting disable_quant_qdq, which converts the weights once; they then take four times
    the memory. Advice for models with other quantized operators: store these weights in float32.
Example: ``--set disable_quant_qdq=1``
References: microsoft/onnxruntime#21535; ONNX Runtime documentation, "Graph optimizations" (constant folding).
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.catalogue.named import DISABLE_QUANT_QDQ
from ortune.catalogue.providers import CPU
from ortune.graph.attributes import int_of
from ortune.graph.constants import constant_tensor
from ortune.graph.nodes import holds, is_op, only_user, source_of, with_operator
from ortune.records import Finding, Plan
from ortune.rules._pairs import dequantized
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "QNT013"

_AXES = 2
_UNQUANTIZED = ("LSTM", "GRU", "RNN")
"""Operators without a form for 8-bit weights after DequantizeLinear."""

_TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
weights_alone (float[1,2,4,4] x) => (float[1,2,4,4] y)
<int8[2,2,1,1] w = {1,2,3,4}, float s = {0.1}, int8 z = {0}, float[2,2,1,1] v = {1,2,3,4}>
{
    [bad_weights] d = DequantizeLinear (w, s, z)
    y = Conv (x, WEIGHT)
}
"""
BAD = _TEXT.replace("WEIGHT", "d")
GOOD = _TEXT.replace("    [bad_weights] d = DequantizeLinear (w, s, z)\n", "").replace("WEIGHT", "v")


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on 8-bit weights that are dequantized in every run, if the target is the CPU."""
    if facts.model is None or facts.target != CPU.target or facts.plan.settings.get(DISABLE_QUANT_QDQ.name):
        return
    dequantized_weights = [
        node for node in with_operator(facts.model.ir, "DequantizeLinear") if _is_alone(node)
    ]
    if dequantized_weights:
        whole = holds(facts.model.ir, "QuantizeLinear")
        yield Finding(
            code=CODE,
            what=f"8-bit weights are converted to float32 on every run: {counted(dequantized_weights)}",
            where=tuple(map(name_of, dequantized_weights)),
            plan=None if whole else Plan(settings={DISABLE_QUANT_QDQ.name: True}),
            safety="advice" if whole else "numerics",
            fix="store these weights in float32" if whole else "",
        )


def _is_alone(node: ir.Node) -> bool:
    """Return whether a DequantizeLinear computes weights that only float products, recurrences or Gathers read."""
    tensor = constant_tensor(source_of(node.inputs[0]))
    readers = [use.node for use in node.outputs[0].uses()]
    if tensor is None or tensor.dtype not in (ir.DataType.INT8, ir.DataType.UINT8) or not readers:
        return False
    if all(is_op(reader, *_UNQUANTIZED) and reader.inputs[0] is not node.outputs[0] for reader in readers):
        return True
    if all(is_op(reader, "Gather") and reader.inputs[0] is node.outputs[0] for reader in readers):
        return True
    return all(
        is_op(product, "Conv", "ConvTranspose", "MatMul", "Gemm")
        and product.inputs[1] is node.outputs[0]
        and not dequantized(product.inputs[0])
        and (is_op(product, "Conv", "ConvTranspose") or _stays(product, node))
        for product in readers
    )


def _stays(product: ir.Node, weights: ir.Node) -> bool:
    """Return whether ONNX Runtime does not turn a product into MatMulNBits."""
    user = only_user(product.outputs[0])
    x = product.inputs[0]
    flat = x is not None and x.shape is not None and len(x.shape) == _AXES
    if user is not None and is_op(product, "MatMul") and is_op(user, "Add") and flat:
        user = only_user(user.outputs[0])  # the two become one Gemm
    if user is not None and is_op(user, "Relu") and not user.outputs[0].is_graph_output():
        return True
    scale = constant_tensor(weights.inputs[1])
    turned = is_op(product, "Gemm") and bool(int_of(product, "transB", 0))
    # Axis 1 and -1 of a matrix are equal. MatMulNBits has scales along the outputs: axis 1 of the weights, or
    # axis 0 if Gemm transposes them.
    by_row = int_of(weights, "axis", 1) % 2 == int(turned)
    return scale is not None and scale.size > 1 and by_row
