"""Weights are quantized to uint8.

What it is: uint8 weights in quantized convolutions and matrix multiplications, where int8 would do.
Why it costs: the 8-bit dot product of x86 takes one signed and one unsigned operand. For two unsigned operands ONNX
    Runtime uses a code path that is up to ten times slower.
Evidence: the type of the weights, and a CPU with VNNI.
Fix and its safety: numerics: the rewrite ``uint8-weights-to-int8``. Where it does not apply, advice: quantize again
    with symmetric int8 weights and uint8 activations.
Example: ``quantize_static(..., weight_type=QuantType.QInt8)``
References: microsoft/onnxruntime#6732, #17389, #12854.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.catalogue.providers import CPU
from ortune.graph.constants import stored
from ortune.graph.model.graphs import nodes
from ortune.graph.nodes import maker_of, source_of
from ortune.records import Finding
from ortune.rewrites.uint8_weights_to_int8 import REWRITE
from ortune.rules._fixes import fixed_by
from ortune.rules._pairs import dequantized
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "QNT003"

_VNNI = frozenset({"avx512_vnni", "avx_vnni"})
_WEIGHTS = {
    "QLinearConv": 3,
    "QLinearMatMul": 3,
    "ConvInteger": 1,
    "MatMulInteger": 1,
    "Conv": 1,
    "MatMul": 1,
    "Gemm": 1,
}

_HEAD = """
<ir_version: 8, opset_import: ["" : 17]>
products (uint8[8,4] x, float s, uint8 z, int8 t) => (uint8[8,2] y)
"""

BAD = f"""{_HEAD}<uint8[4,2] w = {{1,2,3,4,5,6,7,8}}>
{{
    [bad_product] y = QLinearMatMul (x, s, z, w, s, z, s, z)
}}
"""
GOOD = f"""{_HEAD}<int8[4,2] w = {{1,2,3,4,5,6,7,8}}>
{{
    y = QLinearMatMul (x, s, z, w, s, t, s, z)
}}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on uint8 weights, if the CPU has VNNI."""
    if (
        facts.model is None
        or facts.target != CPU.target
        or facts.host is None
        or not _VNNI & set(facts.host.features)
    ):
        return
    products = [
        node
        for node in nodes(facts.model.ir)
        if (tensor := quantized_weights(node)) is not None and tensor.dtype == ir.DataType.UINT8
    ]
    if products:
        finding = Finding(
            code=CODE,
            what=f"uint8 weights are slow on a CPU with VNNI: {counted(products)}",
            where=tuple(map(name_of, products)),
            fix="quantize again with symmetric int8 weights",
        )
        yield fixed_by(REWRITE, finding, facts)


def quantized_weights(node: ir.Node) -> ir.TensorProtocol | None:
    """Return the constant weights of a product, direct or through a DequantizeLinear; None for other nodes."""
    place = _WEIGHTS.get(node.op_type)
    if place is None or len(node.inputs) <= place:
        return None
    value = node.inputs[place]
    maker = maker_of(value)
    if maker is not None and maker.op_type == "DequantizeLinear" and dequantized(node.inputs[0]):
        value = maker.inputs[0]
    return None if value is None else stored(source_of(value))
