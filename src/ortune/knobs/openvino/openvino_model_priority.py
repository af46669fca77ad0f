"""Which of several models has priority on a shared device.

What it is: a hint for devices that several models share.
Why it costs: if models compete, one with a low priority waits. A single model is not affected.
Evidence: latency while another model runs. OpenVINO does not return the value. The plug-in onnxruntime-ep-openvino
    1.8.1 ignores the option, and its CPU device has no such property, so the trial fails.
Fix and its safety: ``high`` for the model that users wait for; exact.
Example: ``--target openvino --set openvino_model_priority=high``
References: OpenVINO execution provider, ``model_priority``; OpenVINO, ``MODEL_PRIORITY``.
"""

from ortune.knobs.knob import Knob
from ortune.providers.openvino import PROVIDER as OPENVINO

KNOB = Knob(
    name="openvino_model_priority",
    aliases=("ov_priority",),
    since="1.18",
    channel="provider_option",
    provider=OPENVINO.name,
    key="model_priority",
    kind="choice",
    choices=("low", "medium", "high", "default"),
    spelled=(("low", "LOW"), ("medium", "MEDIUM"), ("high", "HIGH"), ("default", "DEFAULT")),
    default="default",
    summary="priority among the models that share a device",
)
