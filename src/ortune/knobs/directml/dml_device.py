"""Which GPU runs the session.

What it is: the number that DXGI gives the adapter, from 0 on.
Why it costs: GPUs of one machine differ in speed; adapter 0 drives the main display.
Evidence: a number without a device ends the session.
Fix and its safety: the number of the faster GPU; exact.
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
    summary="the number of the GPU",
)
