"""Whether TensorRT may compute in int8.

What it is: layers between QuantizeLinear and DequantizeLinear run in integers; a model without these needs a
    calibration table.
Why it costs: without this setting, the quantized part runs in floating point, and the conversions cost extra time.
Evidence: latency of a quantized model, and its outputs.
Fix and its safety: on for a quantized model; numerics.
Example: ``--target tensorrt --set trt_int8=1``
References: ONNX Runtime documentation, "TensorRT Execution Provider", ``trt_int8_enable``. Untested by ortune.
"""

from ortune.knobs.knob import OFTEN, Knob
from ortune.providers.tensorrt import PROVIDER as TENSORRT

KNOB = Knob(
    name="trt_int8",
    channel="provider_option",
    provider=TENSORRT.name,
    key="trt_int8_enable",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="numerics",
    summary="TensorRT in int8",
    tries=("1",),
    prior=OFTEN,
    applies=lambda model: model.qdq,
)
