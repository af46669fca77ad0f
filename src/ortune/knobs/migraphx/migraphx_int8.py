"""Whether MIGraphX computes in int8.

What it is: the model is converted to int8 before it is compiled.
Why it costs: narrower types allow more operations per second and need fewer bytes, but lose precision.
Evidence: latency, and the output error relative to the CPU.
Fix and its safety: off. Int8 needs a calibration table, and a plan cannot contain its path, so set it in your own code;
    numerics.
Example: ``--target migraphx --set migraphx_int8=1``
References: onnxruntime-migraphx 1.27.1, ``migraphx_int8_enable``. Untested by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.migraphx import PROVIDER as MIGRAPHX

KNOB = Knob(
    name="migraphx_int8",
    channel="provider_option",
    provider=MIGRAPHX.name,
    key="migraphx_int8_enable",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="numerics",
    summary="MIGraphX in int8",
)
