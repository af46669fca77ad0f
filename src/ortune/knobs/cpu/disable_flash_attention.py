"""Whether fused attention runs without the flash algorithm.

What it is: by default, MultiHeadAttention on the CPU computes the scores block by block; with 1, it computes the whole
    matrix of scores.
Why it costs: blocks are faster for long sequences; short ones can be faster in one piece.
Evidence: latency of the attention nodes by sequence length.
Fix and its safety: on for short sequences where it measures faster; exact (sums are reassociated).
Example: ``--set flash_off=1``
References: ONNX Runtime contrib operators, "MultiHeadAttention".
"""

from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="disable_flash_attention",
    aliases=("flash_off",),
    since="1.19",
    channel="env",
    key="ORT_DISABLE_FLASH_ATTENTION",
    kind="bool",
    default="off",
    summary="fused attention without the flash algorithm",
    tries=("1",),
    prior=SELDOM,
    applies=lambda model: model.has("MultiHeadAttention"),
)
