"""Block size of weights that are fused into 4-bit products.

What it is: the block length used when per-channel or per-tensor 4-bit weights become MatMulNBits.
Why it costs: short blocks read more scales; long ones spread each thread's work unevenly.
Evidence: ``block_size`` of MatMulNBits in the optimised graph; latency.
Fix and its safety: the value that measures faster; numerics.
Example: ``--set nbits_block=64``
References: ``onnxruntime_session_options_config_keys.h``.
"""

from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="qdq_matmulnbits_block_size",
    aliases=("nbits_block",),
    since="1.25",
    channel="session_config",
    key="session.qdq_matmulnbits_block_size",
    kind="choice",
    choices=("16", "32", "64", "128", "256"),
    default="32",
    safety="numerics",
    summary="block size of fused 4-bit products",
    tries=("64", "128"),
    prior=SELDOM,
    applies=lambda model: model.blockwise_weights,
)
