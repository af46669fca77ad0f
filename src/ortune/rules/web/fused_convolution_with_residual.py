"""A fused convolution has a residual input, which WebGPU ignores.

What it is: com.microsoft.FusedConv with a fourth input (Z, a residual connection) on WebGPU. ONNX Runtime creates it
    only for the CPU, at level all.
Why it costs: outputs are silently wrong, because the WebGPU kernel never reads the residual input. (The older JSEP
    rejects it.)
Evidence: the operator and its inputs.
Fix and its safety: advice: ship the original .onnx, or optimise it no further than level extended. An .ort
    file needs level basic.
Example: a residual network saved with ``optimized_model_filepath`` at level all
References: ONNX Runtime contrib operators, "FusedConv"; microsoft/onnxruntime#24475.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.providers import WEB_WEBGPU
from ortune.records import Finding
from ortune.rules._browsers import GPU, residual_convolutions, supported_file_fix
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "WEB004"
TARGET = WEB_WEBGPU.target

BAD = """
<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
with_residual (float[1,4,8,8] x, float[4,4,1,1] w, float[4] b) => (float[1,4,8,8] y)
{
    [bad_sum] y = com.microsoft.FusedConv <activation = "Relu", kernel_shape = [1, 1]> (x, w, b, x)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
without (float[1,4,8,8] x, float[4,4,1,1] w, float[4] b) => (float[1,4,8,8] y)
{
    y = com.microsoft.FusedConv <activation = "Relu", kernel_shape = [1, 1]> (x, w, b)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on fused convolutions with a residual input, if WebGPU runs the model."""
    if facts.model is None or facts.target not in GPU:
        return
    convolutions = residual_convolutions(facts.model.ir)
    if convolutions:
        yield Finding(
            code=CODE,
            severity="error",
            what=f"outputs are wrong on WebGPU, which ignores the residual input: {counted(convolutions)}",
            where=tuple(map(name_of, convolutions)),
            fix=supported_file_fix(facts)
            if facts.model.in_ort_format
            else "ship the original .onnx, or optimise it no further than level extended",
        )
