"""The model computes in float16, for which the CPU provider has few kernels.

What it is: float16 matrix multiplications, convolutions, recurrent layers and Attention, as in models exported for
    GPUs, on the CPU (native or WebAssembly).
Why it costs: on x86-64 ONNX Runtime computes most operators in float32 and inserts Casts around them. It removes many
    of these Casts when it loads the model. Each remaining one costs a pass and prevents fusions, and loading takes
    longer.
Evidence: the operators with float16 inputs, by name.
Fix and its safety: numerics: the rewrite ``float16-to-float32``. Where it does not apply, advice: run the original
    float32 model on the CPU, or quantize it. Keep the float16 file for GPUs.
Example: ``ortune compare model-fp32.onnx model-fp16.onnx``
References: microsoft/onnxruntime#16778, #25824, #11831, #9892.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.model.graphs import nodes, op_set
from ortune.records import Finding
from ortune.rewrites.float16_to_float32 import REWRITE
from ortune.rules._fixes import mended_by
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "PRC003"

_PRODUCTS = op_set("Conv ConvTranspose Gemm MatMul LSTM GRU RNN Attention")

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
halves (float16[8,96] x, float16[96,96] w) => (float16[8,96] y)
{
    [bad_product] p = MatMul (x, w)
    y = Relu (p)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
halves (float16[8,96] x, float[96,96] w) => (float[8,96] y)
{
    f = Cast <to = 1> (x)
    p = MatMul (f, w)
    y = Relu (p)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Products of float16, where the CPU runs them."""
    if facts.model is None or not facts.provider.cpu_kernels:
        return
    products = [
        node
        for node in nodes(facts.model.ir)
        if node.op_type in _PRODUCTS
        and any(value is not None and value.dtype == ir.DataType.FLOAT16 for value in node.inputs)
    ]
    if products:
        finding = Finding(
            code=CODE,
            what=f"the model computes in float16 on a CPU: {counted(products)}",
            where=tuple(map(name_of, products)),
            fix="run the float32 model on the CPU",
        )
        yield mended_by(REWRITE, finding, facts)
