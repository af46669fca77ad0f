"""Which device OpenVINO runs its part of the graph on.

What it is: the CPU, an Intel GPU or NPU, or OpenVINO's own choice among them.
Why it costs: a GPU computes faster, but each call copies inputs and outputs; the CPU needs no copies.
Evidence: latency. If the device does not exist, the session has no OpenVINO provider, and the trial fails.
Fix and its safety: the device that measures fastest; numerics, since GPU and NPU compute in float16.
Example: ``--target openvino --set openvino_device=gpu``
References: OpenVINO execution provider, ``device_type``.
"""

from ortune.knobs.knob import Knob
from ortune.providers.openvino import PROVIDER as OPENVINO

KNOB = Knob(
    name="openvino_device",
    aliases=("ov_device",),
    since="1.18",
    channel="provider_option",
    provider=OPENVINO.name,
    key="device_type",
    kind="choice",
    choices=("cpu", "gpu", "npu", "auto"),
    beyond=True,
    spelled=(("cpu", "CPU"), ("gpu", "GPU"), ("npu", "NPU"), ("auto", "AUTO")),
    default="cpu",
    safety="numerics",
    summary="the device that OpenVINO runs on",
)
