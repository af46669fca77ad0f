"""Whether NNAPI may compute in float16.

What it is: drivers are allowed to relax float32 to float16.
Why it costs: float16 has twice the arithmetic and half the bytes on most phones.
Evidence: latency on the device, and the outputs' distance from the CPU's.
Fix and its safety: on where outputs stay within the tolerance; numerics.
Example: ``--target nnapi --set nnapi_fp16=1``
References: ONNX Runtime 1.31, ``NNAPI_FLAG_USE_FP16`` in nnapi_provider_factory.h;
    microsoft/onnxruntime#5576. Not run on this system.
"""

from ortune.knobs.knob import OFTEN, Knob
from ortune.providers.nnapi import PROVIDER as NNAPI

KNOB = Knob(
    name="nnapi_fp16",
    since="1.6",
    channel="provider_option",
    provider=NNAPI.name,
    key="NNAPI_FLAG_USE_FP16",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="numerics",
    summary="NNAPI in float16",
    tries=("1",),
    prior=OFTEN,
)
