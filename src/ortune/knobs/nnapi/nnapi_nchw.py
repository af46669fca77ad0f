"""Whether NNAPI gets tensors with channels first.

What it is: without it ONNX Runtime transposes to NHWC at the boundaries of each region.
Why it costs: drivers are written for NHWC and are usually slower with NCHW.
Evidence: latency on the device.
Fix and its safety: leave it at 0 unless it measures faster; exact. It needs Android 10.
Example: ``--target nnapi --set nnapi_nchw=1``
References: ONNX Runtime 1.31, ``NNAPI_FLAG_USE_NCHW`` in nnapi_provider_factory.h; microsoft/onnxruntime#5576. Untested
    by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.nnapi import PROVIDER as NNAPI

KNOB = Knob(
    name="nnapi_nchw",
    since="1.6",
    channel="provider_option",
    provider=NNAPI.name,
    key="NNAPI_FLAG_USE_NCHW",
    kind="choice",
    choices=("0", "1"),
    default="0",
    summary="tensors with channels first",
)
