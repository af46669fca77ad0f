"""A model is so small that WebGPU takes longer to start it than WebAssembly to compute it.

What it is: fewer than 10 million floating-point operations a run, where the target is WebGPU in a browser.
Why it costs: each kernel is prepared and handed to the GPU (tens of microseconds), and outputs are read back, which
    waits for all of them: a millisecond or two. WebAssembly with SIMD computes that many operations in less than one.
Evidence: operations, counted from the shapes that the model declares.
Fix and its safety: advice: run it with WebAssembly, which needs a download of half the size too; measure both warm.
Example: ``ortune tune model.onnx --target web-wasm``
References: microsoft/onnxruntime#17167; huggingface/transformers.js#955.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.analysis import cost
from ortune.model.open import OpenModel
from ortune.providers.web_webgpu import PROVIDER as WEB_WEBGPU
from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "WEB007"
TIER = "preview"
TARGET = WEB_WEBGPU.target

_SMALL_FLOPS = 10_000_000
_MOST_NODES = 2_000  # a model of more is not small, and counting it takes time

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
    """From the operations of a run, where all sizes are declared."""
    if facts.model is None or facts.target != TARGET:
        return
    flops = _flops(facts.model)
    if 0 < flops < _SMALL_FLOPS:
        yield Finding(
            code=CODE,
            severity="note",
            what=f"a run is {flops / 1e6:.2g} million operations: WebAssembly is likely faster than WebGPU",
            fix="measure it with WebAssembly too",
        )


def _flops(model: OpenModel) -> float:
    """Of one run; 0 where they are not known."""
    if model.facts.n_nodes > _MOST_NODES:
        return 0.0
    found = cost.costs(model.ir, {})
    return 0.0 if found.unknown else float(found.flops)
