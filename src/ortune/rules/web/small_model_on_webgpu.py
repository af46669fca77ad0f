"""The model is so small that WebGPU overhead exceeds the time to compute it on the CPU.

What it is: fewer than 10 million floating-point operations per run, on WebGPU in a browser.
Why it costs: launching each kernel takes tens of microseconds, and reading outputs back waits for all of them: 1 to 2
    ms in total. WebAssembly with SIMD computes that many operations in less than 1 ms.
Evidence: operations, counted from the declared shapes.
Fix and its safety: advice: run it with WebAssembly, which is also half the download; measure both after warm-up.
Example: ``ortune tune model.onnx --target web-wasm``
References: microsoft/onnxruntime#17167; huggingface/transformers.js#955.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.providers import WEB_WASM, WEB_WEBGPU
from ortune.graph.model.open import OpenModel
from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "WEB007"
TIER = "preview"
TARGET = WEB_WEBGPU.target

_SMALL_FLOPS = 10_000_000
_MOST_NODES = 2_000  # a model with more nodes is not small, and counting takes time

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
small (float[8,96] x, float[96,96] w) => (float[8,96] y)
{
    y = MatMul (x, w)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
large (float[512,512] x, float[512,512] w) => (float[512,512] y)
{
    y = MatMul (x, w)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if a run on WebGPU has few operations, unless sizes are unknown."""
    if facts.model is None or facts.target != TARGET:
        return
    flops = _flops(facts.model)
    if 0 < flops < _SMALL_FLOPS:
        yield Finding(
            code=CODE,
            severity="note",
            what=f"a run has only {flops / 1e6:.2g} million operations, so WebAssembly is likely faster than WebGPU",
            fix=f"measure it with WebAssembly too: ortune tune model.onnx --target {WEB_WASM.target}",
        )


def _flops(model: OpenModel) -> float:
    """Return the operations of one run; 0 if unknown."""
    if model.facts.n_nodes > _MOST_NODES:
        return 0.0
    from ortune.graph.cost import costs  # needed only for the GPU of a browser

    total = costs(model.ir, {})
    return 0.0 if total.unknown else float(total.flops)
