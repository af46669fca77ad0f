"""8-bit operators have no kernel on the GPU.

What it is: QLinearConv, QLinearMatMul, ConvInteger, MatMulInteger (on CUDA except int8 times int8) and
    DynamicQuantizeLinear, and on WebGPU also QuantizeLinear, where the target is CUDA or WebGPU.
Why it costs: each runs on the CPU, and its inputs and outputs are copied from and to the GPU.
Evidence: the operators.
Fix and its safety: advice: give the GPU a float16 model, or 4-bit weights (MatMulNBits). For TensorRT, use
    quantize-dequantize pairs.
Example: ``ortune compare model-int8.onnx model-fp16.onnx --target cuda``
References: microsoft/onnxruntime#12229, #24807, #10267, #7745, #21535; huggingface/transformers.js#1512.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.catalogue.providers import CUDA
from ortune.graph.model.graphs import nodes, op_set
from ortune.records import Finding
from ortune.rules._browsers import GPU
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "QNT006"
TARGET = CUDA.target

_TARGETS = (CUDA.target, *GPU)
_OPERATORS = op_set("QLinearConv QLinearMatMul ConvInteger MatMulInteger DynamicQuantizeLinear")
_ON_WEBGPU = _OPERATORS | {"QuantizeLinear"}

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
integers (uint8[8,8] x, uint8[8,8] w) => (int32[8,8] y)
{
    [bad_product] y = MatMulInteger (x, w)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
floats (float[8,8] x, float[8,8] w) => (float[8,8] y)
{
    y = MatMul (x, w)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on 8-bit operators without a kernel for the target's GPU."""
    if facts.model is None or facts.target not in _TARGETS:
        return
    on_cuda = facts.target not in GPU
    lacking = _OPERATORS if on_cuda else _ON_WEBGPU
    lacking_kernels = [
        node
        for node in nodes(facts.model.ir)
        if node.op_type in lacking and not (on_cuda and _signed_product(node))
    ]
    if lacking_kernels:
        yield Finding(
            code=CODE,
            what=f"these 8-bit operators have no kernel on {facts.target}: {counted(lacking_kernels)}",
            where=tuple(map(name_of, lacking_kernels)),
            fix="use a float16 model on the GPU, or 4-bit weights",
        )


def _signed_product(node: ir.Node) -> bool:
    """Return whether a node multiplies int8 by int8, the only integer product with a CUDA kernel."""
    types = [value.dtype for value in node.inputs[:2] if value is not None]
    return node.op_type == "MatMulInteger" and types == [ir.DataType.INT8, ir.DataType.INT8]
