"""Matrix multiplications were fused for the CPU before the model was saved.

What it is: FusedGemm or FusedMatMul in a model for WebGPU. ONNX Runtime creates these operators when it saves a model
    for the CPU at level extended or higher. Its converter to ORT format uses level all by default.
Why it costs: WebGPU has no kernel for them. In an .onnx file, each silently runs in WebAssembly, with copies from and
    to the GPU. ONNX Runtime inserts no copies into an .ort file, so the whole surrounding part of the graph stays on
    the CPU.
Evidence: the operators.
Fix and its safety: advice: ship the original .onnx, which the page optimises for its own provider; or convert it at
    level basic.
Example: ``ortune convert model.onnx --to ort --for web-webgpu``
References: microsoft/onnxruntime#24475, #23072, #9054.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.providers import WEB_WEBGPU
from ortune.graph.model.graphs import nodes
from ortune.graph.ort_files import FUSED_PRODUCTS, is_fused, saved_at
from ortune.records import Finding
from ortune.rules._browsers import GPU, supported_file_fix
from ortune.rules._words import name_of, subject
from ortune.rules.facts import Facts

CODE = "WEB002"
TARGET = WEB_WEBGPU.target

BAD = """
<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
fused (float[8,96] x, float[96,96] w, float[96] b) => (float[8,96] y)
{
    [bad_product] y = com.microsoft.FusedGemm <activation = "Relu"> (x, w, b)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
plain (float[8,96] x, float[96,96] w, float[96] b) => (float[8,96] y)
{
    p = Gemm (x, w, b)
    y = Relu (p)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on products fused for the CPU, if WebGPU runs the model."""
    if facts.model is None or facts.target not in GPU:
        return
    products = [node for node in nodes(facts.model.ir) if is_fused(node, *FUSED_PRODUCTS)]
    if products:
        level = saved_at(facts.model.ir)
        yield Finding(
            code=CODE,
            what=f"{subject(products, 'runs', 'run')} on the CPU because the file was optimised for it (level {level})",
            where=tuple(map(name_of, products)),
            fix=supported_file_fix(facts),
        )
