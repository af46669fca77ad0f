"""cuDNN searches for the fastest convolution again for every new input shape.

What it is: convolutions on CUDA in a model with dynamic dimensions, with cudnn_conv_algo_search at its default,
    EXHAUSTIVE.
Why it costs: for each new shape cuDNN benchmarks all its algorithms, which takes hundreds of milliseconds to
    seconds while requests wait. Results for older shapes may have been evicted from the cache.
Evidence: the operator, the declared input shapes and the provider option.
Fix and its safety: advice: use HEURISTIC; or restrict inputs to a few sizes and run each once as warm-up.
Example: ``{"cudnn_conv_algo_search": "HEURISTIC"}`` among the CUDAExecutionProvider options
References: microsoft/onnxruntime#19838, #709, #6978; PaddlePaddle/PaddleX#5057; christopherthompson81/vernacula#191.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.providers import CUDA
from ortune.graph.nodes import holds
from ortune.records import Finding
from ortune.rules._providers import open_inputs, options_of
from ortune.rules._words import listed
from ortune.rules.facts import Facts

CODE = "CUD001"
TIER = "preview"
TARGET = CUDA.target

_BODY = """
<float[2,3,1,1] w = {1,2,3,4,5,6}>
{
    y = Conv (NAME, w)
}
"""
_HEAD = '<ir_version: 8, opset_import: ["" : 17]>'

BAD = f"{_HEAD}\nopen (float[1,3,h,w0] bad_x) => (float[1,2,h,w0] y){_BODY.replace('NAME', 'bad_x')}"
GOOD = f"{_HEAD}\nfixed (float[1,3,8,8] x) => (float[1,2,8,8] y){_BODY.replace('NAME', 'x')}"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if CUDA runs convolutions of dynamic shapes with the exhaustive algorithm search."""
    if facts.model is None or facts.target != CUDA.target:
        return
    search = options_of(facts, CUDA.name).get("cudnn_conv_algo_search", "EXHAUSTIVE")
    names = open_inputs(facts)
    if names and search == "EXHAUSTIVE" and holds(facts.model.ir, "Conv", "ConvTranspose"):
        yield Finding(
            code=CODE,
            what=f"cuDNN searches convolution algorithms again for every new shape of {listed(names)}",
            where=names,
            fix="set the provider option cudnn_conv_algo_search=HEURISTIC",
        )
