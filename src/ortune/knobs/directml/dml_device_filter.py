"""Which kind of device DirectML may use.

What it is: ``gpu``, ``npu`` or ``any``.
Why it costs: an NPU takes less power and runs fewer operators, so nodes fall back to the CPU.
Evidence: placement, latency.
Fix and its safety: ``npu`` where power matters and the model's operators run there; numerics.
Example: ``--target directml --set dml_device_filter=npu``
References: ONNX Runtime documentation, "DirectML Execution Provider"; ``device_filter`` in onnxruntime-directml 1.24.4.
    Untested by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.directml import PROVIDER as DIRECTML

KNOB = Knob(
    name="dml_device_filter",
    since="1.17",
    channel="provider_option",
    provider=DIRECTML.name,
    key="device_filter",
    kind="choice",
    choices=("gpu", "npu", "any"),
    default="gpu",
    safety="numerics",
    summary="the kind of device",
)
