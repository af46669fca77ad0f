"""Whether DequantizeLinear and MatMul are also fused where this is not the default.

What it is: DequantizeLinear and MatMul become one MatMulNBits even for providers that do not request the fusion.
Why it costs: unfused, the weights are unpacked to float in every run.
Evidence: MatMulNBits in the optimised graph.
Fix and its safety: on for models with blockwise quantized weights; numerics.
Example: ``--set nbits_fusion=1``
References: ``onnxruntime_session_options_config_keys.h``.
"""

from ortune.knobs.knob import OFTEN, Knob

KNOB = Knob(
    name="dq_matmulnbits_fusion",
    aliases=("nbits_fusion",),
    since="1.24",
    channel="session_config",
    key="session.enable_dq_matmulnbits_fusion",
    kind="bool",
    default="off",
    safety="numerics",
    summary="dequantize and MatMul fused into MatMulNBits",
    tries=("1",),
    prior=OFTEN,
    applies=lambda model: model.blockwise_weights,
    priors={"latency": 0.4},
)
