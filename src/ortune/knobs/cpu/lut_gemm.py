"""Whether products with low-bit weights use lookup tables instead of multiplications.

What it is: MatMulNBits with 2-bit weights uses tables of partial sums where the shape allows it.
Why it costs: unpacking two bits to multiply them costs more than reading a table.
Evidence: latency of MatMulNBits nodes.
Fix and its safety: on where it measures faster; numerics.
Example: ``--set lut=1``
References: ``onnxruntime_session_options_config_keys.h``.
"""

from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="lut_gemm",
    aliases=("lut",),
    since="1.24",
    channel="session_config",
    key="mlas.use_lut_gemm",
    kind="bool",
    default="off",
    safety="numerics",
    summary="low-bit matrix products by lookup table",
    tries=("1",),
    prior=SELDOM,
    applies=lambda model: 2 in model.weight_bits,
)
