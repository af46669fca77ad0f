"""Operators have no kernel on WebGPU.

What it is: Loop, Scan, NonZero, NonMaxSuppression, RoiAlign, Unique and RNN on WebGPU; in the older JSEP build also
    LSTM and GRU.
Why it costs: they run on the CPU, and each copy from the GPU waits for all work queued there.
Evidence: the operators.
Fix and its safety: advice: move them out of the model, before or after the part that runs on the GPU.
Example: a detector exported without its NonMaxSuppression
References: microsoft/onnxruntime#18584, #22425; ONNX Runtime, table of operators of WebGPU.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.providers import WEBGPU
from ortune.graph.model.graphs import nodes, op_set
from ortune.records import Finding
from ortune.rules._browsers import GPU, JSEP, build_run
from ortune.rules._words import name_of, subject
from ortune.rules.facts import Facts

CODE = "WEB001"
TARGET = WEBGPU.target

_WITHOUT = op_set("RNN NonZero NonMaxSuppression RoiAlign Unique Loop Scan")
_WITHOUT_IN_JSEP = _WITHOUT | op_set("LSTM GRU")

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
where_not_zero (float[8,8] x) => (int64[2,n] y)
{
    [bad_places] y = NonZero (x)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
positive (float[8,8] x) => (float[8,8] y)
{
    y = Relu (x)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on operators without a WebGPU kernel, if WebGPU runs the model."""
    if facts.model is None or facts.target not in GPU:
        return
    without = _WITHOUT_IN_JSEP if build_run(facts) == JSEP else _WITHOUT
    matches = [node for node in nodes(facts.model.ir) if node.op_type in without and not node.domain]
    if matches:
        yield Finding(
            code=CODE,
            what=f"{subject(matches, 'has', 'have')} no WebGPU kernel and {'runs' if len(matches) == 1 else 'run'} on "
            f"the CPU",
            where=tuple(map(name_of, matches)),
            fix="move these operators out of the model",
        )
