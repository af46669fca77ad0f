"""Whether TensorRT may compute in bfloat16.

What it is: the builder also times bfloat16 kernels, which have the range of float32 and fewer digits than float16.
Why it costs: models that overflow in float16 do not overflow in bfloat16.
Evidence: latency, and the output error relative to the CPU.
Fix and its safety: on where float16 overflows; numerics.
Example: ``--target tensorrt --set trt_bf16=1``
References: ONNX Runtime documentation, "TensorRT Execution Provider", ``trt_bf16_enable``. Untested by ortune.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.tensorrt import PROVIDER as TENSORRT

KNOB = Knob(
    name="trt_bf16",
    since="1.22",
    channel="provider_option",
    provider=TENSORRT.name,
    key="trt_bf16_enable",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="numerics",
    summary="TensorRT in bfloat16",
    tries=("1",),
    prior=SELDOM,
)
