"""Whether MIGraphX computes in bfloat16.

What it is: the model is converted to bfloat16 before it is compiled.
Why it costs: narrower types allow more operations per second and need fewer bytes, but lose precision.
Evidence: latency, and the output error relative to the CPU.
Fix and its safety: on where outputs stay within the tolerance; numerics.
Example: ``--target migraphx --set migraphx_bf16=1``
References: onnxruntime-migraphx 1.27.1, ``migraphx_bf16_enable``. Untested by ortune.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.migraphx import PROVIDER as MIGRAPHX

KNOB = Knob(
    name="migraphx_bf16",
    channel="provider_option",
    provider=MIGRAPHX.name,
    key="migraphx_bf16_enable",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="numerics",
    summary="MIGraphX in bfloat16",
    tries=("1",),
    prior=SELDOM,
)
