"""Whether 8-bit matrix products on x86 avoid saturation.

What it is: if on, U8S8 products run as U8U8 on processors without VNNI, so 16-bit sums cannot saturate.
Why it costs: products without saturation are slower on AVX2 and AVX-512; with VNNI the setting changes nothing.
Evidence: latency and accuracy of quantized models.
Fix and its safety: on for accuracy, not for speed; numerics.
Example: ``--set quant_precision=1``
References: ONNX Runtime documentation, "Quantize ONNX models" (data type selection).
"""

from ortune.knobs.knob import Knob

KNOB = Knob(
    name="x64_quant_precision",
    aliases=("quant_precision",),
    channel="session_config",
    key="session.x64quantprecision",
    kind="bool",
    default="off",
    safety="numerics",
    summary="8-bit products without saturation on x86",
)
