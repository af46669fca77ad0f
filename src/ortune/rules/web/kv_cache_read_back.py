"""A decoder's KV cache moves between GPU and page memory at every step.

What it is: outputs that are fed again as inputs (``past_key_values.0.key`` and ``present.0.key``), on WebGPU in a
    browser, with outputs in page memory (the default).
Why it costs: reading back waits for all GPU work, and the whole cache is copied twice per token. A decoder on the GPU
    can be slower than on the CPU, with the GPU idle most of the time.
Evidence: the names of inputs and outputs, and the setting.
Fix and its safety: behaviour: keep these outputs on the GPU (``preferredOutputLocation: 'gpu-buffer'``, per output if
    others are read) and feed them again. The program must dispose of them.
Example: ``--target web-webgpu --set web_output_location=gpu-buffer``
References: microsoft/onnxruntime#18754, #17480; huggingface/transformers.js#1741.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.named import WEB_OUTPUT_LOCATION as OUTPUTS
from ortune.catalogue.providers import WEB_WEBGPU
from ortune.records import Finding, Plan
from ortune.rules._words import are, listed, plural
from ortune.rules.facts import Facts

CODE = "WEB017"
TIER = "preview"
TARGET = WEB_WEBGPU.target

_KEPT_THERE = "gpu-buffer"
_NAMES = (("past_key_values", "present"), ("past", "present"))

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
step (float[1,2,1,8] key, float[1,2,past,8] bad_past_key) => (float[1,2,total,8] bad_present_key)
{
    [joined] bad_present_key = Concat <axis = 2> (bad_past_key, key)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
frames (float[1,2,1,8] key, float[1,2,past,8] other) => (float[1,2,total,8] y)
{
    y = Concat <axis = 2> (other, key)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on cache outputs that are read back, if a page runs the model on WebGPU."""
    if facts.model is None or facts.target != TARGET or facts.plan.settings.get(OUTPUTS.name) == _KEPT_THERE:
        return
    graph = facts.model.ir.graph
    outputs = {value.name for value in graph.outputs}
    names = [value.name or "" for value in graph.inputs]
    caches = [
        name
        for name in names
        if any(old in name and name.replace(old, new) in outputs for old, new in _NAMES)
    ]
    if caches:
        yield Finding(
            code=CODE,
            what=f"{len(caches)} cache {plural(len(caches), 'output')} {are(len(caches))} read back and uploaded again "
            f"at every step: "
            f"{listed(caches)}",
            where=tuple(caches),
            plan=Plan(settings={OUTPUTS.name: _KEPT_THERE}),
            safety="behaviour",
        )
