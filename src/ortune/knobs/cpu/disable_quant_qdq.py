"""Whether QuantizeLinear and DequantizeLinear pairs are left unfused.

What it is: operators between the pairs are not replaced with quantized ones; they compute in float between the
    conversions.
Why it costs: if quantized kernels are slow on a processor, or few match, float kernels can be faster. In most models,
    the unfused conversions cost far more than they save.
Evidence: QLinear operators in the optimised graph; latency.
Fix and its safety: on where the float kernels measure faster; numerics.
Example: ``--set qdq_off=1``
References: ONNX Runtime documentation, "Quantize ONNX models"; microsoft/onnxruntime#12854, #17389.
"""

from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="disable_quant_qdq",
    aliases=("qdq_off",),
    channel="session_config",
    key="session.disable_quant_qdq",
    kind="bool",
    default="off",
    safety="numerics",
    summary="QDQ pairs are not fused",
    tries=("1",),
    prior=SELDOM,
    applies=lambda model: model.qdq,
)
