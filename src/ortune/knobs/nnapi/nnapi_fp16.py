"""Whether NNAPI may compute in float16.

What it is: drivers are allowed to relax float32 to float16.
Why it costs: on most phones, float16 allows twice the operations per second and needs half the bytes.
Evidence: latency on the device, and the output error relative to the CPU.
Fix and its safety: on where outputs stay within the tolerance; numerics.
Example: ``--target nnapi --set nnapi_fp16=1``
References: ONNX Runtime 1.31, ``NNAPI_FLAG_USE_FP16`` in nnapi_provider_factory.h; microsoft/onnxruntime#5576. Untested
    by ortune.
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
