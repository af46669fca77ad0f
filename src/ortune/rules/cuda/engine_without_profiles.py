"""TensorRT builds its engine anew when a shape leaves what it was built for.

What it is: inputs of open size for TensorRT, without trt_profile_min_shapes, trt_profile_opt_shapes and
    trt_profile_max_shapes.
Why it costs: the engine is built for the shapes seen so far; one beyond them stops what is served for as long as
    building takes.
Evidence: the inputs' declared shapes and the provider's options.
Fix and its safety: advice: say the least, the usual and the largest shape of every open input, and run the least and
    the largest once beforehand.
Example: ``{"trt_profile_min_shapes": "x:1x3x64x64", ...}``
References: microsoft/onnxruntime#12120, #16889; huggingface/optimum#657.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.providers.tensorrt import PROVIDER as TENSORRT
from ortune.records import Finding
from ortune.rules._providers import open_inputs, options_of
from ortune.rules._words import listed
from ortune.rules.facts import Facts

CODE = "CUD003"
TIER = "preview"
TARGET = TENSORRT.target

_PROFILES = {"trt_profile_min_shapes", "trt_profile_opt_shapes", "trt_profile_max_shapes"}

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
open (float[batch,8] bad_x) => (float[batch,8] y)
{
    y = Relu (bad_x)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
fixed (float[1,8] x) => (float[1,8] y)
{
    y = Relu (x)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """In the inputs, where TensorRT runs the model."""
    if facts.model is None or facts.target != TENSORRT.target:
        return
    names = open_inputs(facts)
    if names and not options_of(facts, TENSORRT.name).keys() >= _PROFILES:
        yield Finding(
            code=CODE,
            what=f"TensorRT is not told the shapes to come of {listed(names)}, and builds its engine again for them",
            where=names,
            fix="set trt_profile_min_shapes, trt_profile_opt_shapes and trt_profile_max_shapes",
        )
