"""Whether leftover QuantizeLinear and DequantizeLinear pairs are removed after fusion.

What it is: a pair of QuantizeLinear and DequantizeLinear that no fusion used is removed, and the rounding with it.
Why it costs: each leftover pair is two passes over a tensor.
Evidence: QuantizeLinear and DequantizeLinear in the optimised graph.
Fix and its safety: on where the outputs stay within the tolerance; numerics.
Example: ``--set qdq_cleanup=1``
References: ``onnxruntime_session_options_config_keys.h``.
"""

from ortune.knobs.knob import OFTEN, Knob

KNOB = Knob(
    name="quant_qdq_cleanup",
    aliases=("qdq_cleanup",),
    channel="session_config",
    key="session.enable_quant_qdq_cleanup",
    kind="bool",
    default="off",
    safety="numerics",
    summary="leftover QDQ pairs are removed",
    tries=("1",),
    prior=OFTEN,
    applies=lambda model: model.qdq,
)
