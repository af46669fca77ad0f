"""Which GPU runs the session.

What it is: the device ID in CUDA, counted from 0.
Why it costs: GPUs of one machine differ in speed and load.
Evidence: ``nvidia-smi``; session creation fails if the device does not exist.
Fix and its safety: the ID of a GPU that is free; exact.
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
    summary="device ID of the GPU",
)
