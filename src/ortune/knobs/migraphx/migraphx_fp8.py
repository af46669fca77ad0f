"""Whether MIGraphX computes in 8-bit floats.

What it is: the model is converted to 8-bit floats before it is compiled.
Why it costs: narrower types have more arithmetic and fewer bytes, and lose digits.
Evidence: latency, and the outputs' distance from the CPU's.
Fix and its safety: on where outputs stay within the tolerance; numerics.
Example: ``--target migraphx --set migraphx_fp8=1``
References: onnxruntime-migraphx 1.27.1, ``migraphx_fp8_enable``. Not run on this system.
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
