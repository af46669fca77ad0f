"""Which GPU runs the session.

What it is: the device ID in HIP, counted from 0.
Why it costs: GPUs of one machine differ in speed and load.
Evidence: ``rocm-smi``; session creation fails if the device does not exist.
Fix and its safety: the ID of a GPU that is free; exact.
Example: ``--target migraphx --set migraphx_device=1``
References: onnxruntime-migraphx 1.27.1, ``device_id``. Untested by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.migraphx import PROVIDER as MIGRAPHX

KNOB = Knob(
    name="migraphx_device",
    channel="provider_option",
    provider=MIGRAPHX.name,
    key="device_id",
    kind="int",
    minimum=0,
    maximum=255,
    default="0",
    summary="device ID of the GPU",
)
