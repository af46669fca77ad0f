"""Which GPU runs the session.

What it is: the device ID in CUDA, counted from 0.
Why it costs: GPUs of one machine differ in speed and load.
Evidence: ``nvidia-smi``; session creation fails if the device does not exist.
Fix and its safety: the ID of a GPU that is free; exact.
Example: ``--target cuda --set cuda_device=1``
References: ONNX Runtime documentation, "CUDA Execution Provider", ``device_id``.
"""

from ortune.knobs.knob import Knob
from ortune.providers.cuda import PROVIDER as CUDA

KNOB = Knob(
    name="cuda_device",
    channel="provider_option",
    provider=CUDA.name,
    key="device_id",
    kind="int",
    minimum=0,
    maximum=255,
    default="0",
    summary="device ID of the GPU",
)
