"""Whether products with few-bit weights look results up instead of multiplying.

What it is: MatMulNBits with 2-bit weights uses tables of partial sums where the shape allows it.
Why it costs: unpacking two bits to multiply them costs more than reading a table.
Evidence: latency of MatMulNBits nodes.
Fix and its safety: on where it is measured to be faster; numerics.
Example: ``--set lut=1``
References: ``onnxruntime_session_options_config_keys.h``.
"""

from ortune.records import Knob

KNOB = Knob(
    name="lut_gemm",
    aliases=("lut",),
    since="1.24",
    channel="session_config",
    key="mlas.use_lut_gemm",
    kind="bool",
    default="off",
    safety="numerics",
    summary="few-bit products by table",
    group="late",
    per_model=True,
)
