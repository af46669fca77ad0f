"""Which GPU runs the session.

What it is: the number that CUDA gives the device, from 0 on.
Why it costs: GPUs of one machine differ in speed and load.
Evidence: ``nvidia-smi``; a number without a device ends the session.
Fix and its safety: the number of the GPU that is free; exact.
Example: ``--target tensorrt-rtx --set rtx_device=1``
References: onnxruntime-ep-nv-tensorrt-rtx 0.5.0, ``device_id``. Untested by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.tensorrt_rtx import PROVIDER as TENSORRT_RTX

KNOB = Knob(
    name="rtx_device",
    channel="provider_option",
    provider=TENSORRT_RTX.name,
    key="device_id",
    kind="int",
    minimum=0,
    maximum=255,
    default="0",
    summary="the number of the GPU",
)
