"""Whether normalisation stays in float32 while the rest is float16.

What it is: the Pow and ReduceMean of a layer normalisation keep float32.
Why it costs: in float16 their sums overflow or lose precision.
Evidence: the output error relative to the CPU, with ``trt_fp16=1``.
Fix and its safety: on where the output error in float16 is too large; numerics.
Example: ``--target tensorrt --set trt_fp16=1 --set trt_layer_norm_fp32=1``
References: ONNX Runtime documentation, "TensorRT Execution Provider", ``trt_layer_norm_fp32_fallback``. Untested by
    ortune.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.tensorrt import PROVIDER as TENSORRT

KNOB = Knob(
    name="trt_layer_norm_fp32",
    since="1.15",
    channel="provider_option",
    provider=TENSORRT.name,
    key="trt_layer_norm_fp32_fallback",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="numerics",
    summary="normalisation in float32 with float16 elsewhere",
    tries=("1",),
    prior=SELDOM,
    applies=lambda model: model.layer_norm,
    needs=("trt_fp16=1",),
)
