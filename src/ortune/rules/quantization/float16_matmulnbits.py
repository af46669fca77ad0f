"""MatMulNBits has float16 inputs on a CPU.

What it is: MatMulNBits with float16 activations or scales on the CPU.
Why it costs: its fast kernels take float32. Float16 inputs are converted on every run, or the weights are first
    dequantized and multiplied in float16.
Evidence: the types of the node's inputs.
Fix and its safety: advice: quantize the float32 model, or export with float32 activations; the weights
    keep their 4 bits.
Example: a float16 language model for GPUs with ``int4`` weights, run on a CPU
References: microsoft/onnxruntime#27251, #27820; microsoft/onnxruntime-genai#1098.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.catalogue.providers import CPU
from ortune.graph.model.graphs import nodes
from ortune.records import Finding
from ortune.rules._words import name_of, subject
from ortune.rules.facts import Facts

CODE = "QNT008"
TIER = "preview"

_HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>\nfour_bits'
_ATTRIBUTES = "K = 32, N = 16, bits = 4, block_size = 32, accuracy_level = 4"

BAD = f"""
{_HEAD} (float16[1,32] x, uint8[16,1,16] w, float16[16] s) => (float16[1,16] y)
{{
    [bad_product] y = com.microsoft.MatMulNBits <{_ATTRIBUTES}> (x, w, s)
}}
"""
GOOD = f"""
{_HEAD} (float[1,32] x, uint8[16,1,16] w, float[16] s) => (float[1,16] y)
{{
    y = com.microsoft.MatMulNBits <{_ATTRIBUTES}> (x, w, s)
}}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on MatMulNBits nodes with float16 inputs, if the target is the CPU."""
    if facts.model is None or facts.target != CPU.target:
        return
    products = [node for node in nodes(facts.model.ir) if node.op_type == "MatMulNBits" and _half(node)]
    if products:
        yield Finding(
            code=CODE,
            what=f"{subject(products, 'takes', 'take')} float16 inputs, for which the CPU has no fast kernel",
            where=tuple(map(name_of, products)),
            fix="export with float32 activations; the weights keep their 4 bits",
        )


def _half(node: ir.Node) -> bool:
    return any(value is not None and value.dtype == ir.DataType.FLOAT16 for value in node.inputs)
