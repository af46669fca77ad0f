"""The fastest convolution is searched anew for each shape.

What it is: convolutions of inputs with open sizes on CUDA, with cudnn_conv_algo_search at its default, EXHAUSTIVE.
Why it costs: for each shape that was not seen before, cuDNN tries all its algorithms: hundreds of milliseconds in the
    middle of what is served; and shapes that come again later may have been forgotten.
Evidence: the operator, the inputs' declared shapes and the provider's option.
Fix and its safety: advice: HEURISTIC in its place; or few sizes, each run once beforehand.
Example: ``{"cudnn_conv_algo_search": "HEURISTIC"}`` among the options of CUDAExecutionProvider
References: microsoft/onnxruntime#19838, #709, #6978; PaddlePaddle/PaddleX#5057; christopherthompson81/vernacula#191.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.graph.nodes import is_op
from ortune.model.graphs import nodes
from ortune.providers.cuda import PROVIDER as CUDA
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
    """In the model, where CUDA runs it."""
    if facts.model is None or facts.target != CUDA.target:
        return
    search = options_of(facts, CUDA.name).get("cudnn_conv_algo_search", "EXHAUSTIVE")
    names = open_inputs(facts)
    if (
        names
        and search == "EXHAUSTIVE"
        and any(is_op(n, "Conv", "ConvTranspose") for n in nodes(facts.model.ir))
    ):
        yield Finding(
            code=CODE,
            what=f"the fastest convolution is searched for each new shape of {listed(names)}",
            where=names,
            fix="set cudnn_conv_algo_search to HEURISTIC",
        )
