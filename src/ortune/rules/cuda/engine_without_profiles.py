"""TensorRT rebuilds its engine when an input shape leaves the range it was built for.

What it is: inputs with dynamic dimensions on TensorRT, without trt_profile_min_shapes, trt_profile_opt_shapes and
    trt_profile_max_shapes.
Why it costs: the engine covers only the shapes seen before. A shape outside that range stalls requests for as long as
    the rebuild takes.
Evidence: the declared input shapes and the provider options.
Fix and its safety: advice: declare the minimum, typical and maximum shape of every dynamic input, and run the minimum
    and the maximum once as warm-up.
Example: ``{"trt_profile_min_shapes": "x:1x3x64x64", ...}``
References: microsoft/onnxruntime#12120, #16889; huggingface/optimum#657.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.providers import TENSORRT
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
    """Yield a finding if TensorRT runs inputs of dynamic shapes without shape profiles."""
    if facts.model is None or facts.target != TENSORRT.target:
        return
    names = open_inputs(facts)
    if names and not options_of(facts, TENSORRT.name).keys() >= _PROFILES:
        yield Finding(
            code=CODE,
            what=f"TensorRT has no shape profile for {listed(names)}, so new shapes trigger an engine rebuild",
            where=names,
            fix="set the provider options trt_profile_min_shapes, trt_profile_opt_shapes and trt_profile_max_shapes",
        )
