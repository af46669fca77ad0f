"""A decoder's cache goes from the GPU to the page and back at every step.

What it is: outputs that are fed again as inputs (``past_key_values.0.key`` and ``present.0.key``), where the target is
    WebGPU in a browser and outputs are left where they usually are: in the page's memory.
Why it costs: reading back waits for all that the GPU was given, and the whole cache is copied twice a token: a decoder
    on the GPU can be slower than on the CPU, with the GPU idle for most of the time.
Evidence: inputs and outputs by their names; the setting.
Fix and its safety: behaviour: outputs that stay on the GPU (``preferredOutputLocation: 'gpu-buffer'``, for each output
    by name where others are read), fed again as they are. The program has to dispose of them.
Example: ``--target web-webgpu --set web_output_location=gpu-buffer``
References: microsoft/onnxruntime#18754, #17480; huggingface/transformers.js#1741.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.knobs.web.web_output_location import KNOB as OUTPUTS
from ortune.providers.web_webgpu import PROVIDER as WEB_WEBGPU
from ortune.records import Finding, Plan
from ortune.rules._words import listed, plural
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
    """In the model's inputs and outputs, where a page runs it on WebGPU."""
    if facts.model is None or facts.target != TARGET or facts.plan.settings.get(OUTPUTS.name) == _KEPT_THERE:
        return
    graph = facts.model.ir.graph
    outputs = {value.name for value in graph.outputs}
    names = [value.name or "" for value in graph.inputs]
    found = [
        name
        for name in names
        if any(old in name and name.replace(old, new) in outputs for old, new in _NAMES)
    ]
    if found:
        yield Finding(
            code=CODE,
            what=f"{len(found)} {plural(len(found), 'cache')} read back and uploaded at every step: {listed(found)}",
            where=tuple(found),
            plan=Plan(settings={OUTPUTS.name: _KEPT_THERE}),
            safety="behaviour",
        )
