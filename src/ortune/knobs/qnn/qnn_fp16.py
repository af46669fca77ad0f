"""Whether the NPU computes float32 nodes in float16.

What it is: with 1 the nodes of a float32 model run on the NPU in float16; with 0 they need a QNN backend that computes
    float32.
Why it costs: the NPU has no float32 arithmetic: with 0, float32 nodes stay on the CPU or run far slower.
Evidence: placement, latency, and the output error relative to the CPU.
Fix and its safety: on for float models; numerics. NPUs before v68 have no float16. onnxruntime-qnn 2.7.0 accepts
    the value 1 only together with ``qnn_device_model``.
Example: ``--target qnn --set qnn_fp16=1 --set qnn_device_model=60``
References: ONNX Runtime documentation, "QNN Execution Provider", ``enable_htp_fp16_precision``.
"""

from ortune.knobs.knob import Knob
from ortune.providers.qnn import PROVIDER as QNN

KNOB = Knob(
    name="qnn_fp16",
    since="1.18",
    channel="provider_option",
    provider=QNN.name,
    key="enable_htp_fp16_precision",
    kind="choice",
    choices=("0", "1"),
    default="provider's default",
    safety="numerics",
    summary="float32 nodes in float16 on the NPU",
)
