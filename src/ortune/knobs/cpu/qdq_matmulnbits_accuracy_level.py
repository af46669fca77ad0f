"""How precisely fused 4-bit weights are multiplied.

What it is: DequantizeLinear of 4-bit blocks and MatMul become MatMulNBits; level 4 quantizes the activations to int8,
    1 computes in float32. Existing MatMulNBits nodes have their own level.
Why it costs: int8 products are several times faster than unpacking to float, and less exact.
Evidence: ``accuracy_level`` of MatMulNBits in the optimised graph; latency.
Fix and its safety: the lowest accuracy within the tolerance; numerics.
Example: ``--set nbits_level=1``
References: microsoft/onnxruntime#23004, #29849.
"""

from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="qdq_matmulnbits_accuracy_level",
    aliases=("nbits_level",),
    since="1.19",
    channel="session_config",
    key="session.qdq_matmulnbits_accuracy_level",
    kind="choice",
    choices=("0", "1", "2", "3", "4"),
    default="4",
    safety="numerics",
    summary="accuracy of fused 4-bit products",
    tries=("1",),
    prior=SELDOM,
    applies=lambda model: model.blockwise_weights,
)
