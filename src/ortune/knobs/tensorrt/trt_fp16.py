"""Whether TensorRT may compute in float16.

What it is: the builder times float16 and float32 kernels, and uses the faster one for each layer.
Why it costs: float16 allows twice the operations per second of TF32 and needs half the bytes.
Evidence: latency, and the output error relative to the CPU.
Fix and its safety: on where outputs stay within the tolerance; numerics.
Example: ``--target tensorrt --set trt_fp16=1``
References: ONNX Runtime documentation, "TensorRT Execution Provider", ``trt_fp16_enable``. Untested by ortune.
"""

from ortune.knobs.knob import OFTEN, Knob
from ortune.providers.tensorrt import PROVIDER as TENSORRT

KNOB = Knob(
    name="trt_fp16",
    channel="provider_option",
    provider=TENSORRT.name,
    key="trt_fp16_enable",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="numerics",
    summary="TensorRT in float16",
    tries=("1",),
    prior=OFTEN,
    priors={"latency": 0.8},
)
