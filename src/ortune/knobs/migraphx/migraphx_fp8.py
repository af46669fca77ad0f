"""Whether MIGraphX computes in 8-bit floats.

What it is: the model is converted to 8-bit floats before it is compiled.
Why it costs: narrower types allow more operations per second and need fewer bytes, but lose precision.
Evidence: latency, and the output error relative to the CPU.
Fix and its safety: on where outputs stay within the tolerance; numerics.
Example: ``--target migraphx --set migraphx_fp8=1``
References: onnxruntime-migraphx 1.27.1, ``migraphx_fp8_enable``. Untested by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.migraphx import PROVIDER as MIGRAPHX

KNOB = Knob(
    name="migraphx_fp8",
    channel="provider_option",
    provider=MIGRAPHX.name,
    key="migraphx_fp8_enable",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="numerics",
    summary="MIGraphX in 8-bit floats",
)
