"""Which GPU runs the session.

What it is: the index of the adapter in DXGI, counted from 0.
Why it costs: GPUs of one machine differ in speed; adapter 0 drives the main display.
Evidence: session creation fails if the device does not exist.
Fix and its safety: the index of the faster GPU; exact.
Example: ``--target directml --set dml_device=1``
References: ONNX Runtime documentation, "DirectML Execution Provider"; ``device_id`` in onnxruntime-directml 1.24.4.
    Untested by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.directml import PROVIDER as DIRECTML

KNOB = Knob(
    name="dml_device",
    channel="provider_option",
    provider=DIRECTML.name,
    key="device_id",
    kind="int",
    minimum=0,
    maximum=255,
    default="0",
    conflicts=("dml_performance", "dml_device_filter"),
    summary="device ID of the GPU",
)
