"""Whether signed 8-bit activations keep their type in quantized kernels.

What it is: if off, int8 activations of QDQ models become uint8, which x86 kernels need; if on, they stay int8, which
    ARM kernels need.
Why it costs: the other type adds conversions or takes a slower path.
Evidence: QLinear operators and conversions in the optimised graph.
Fix and its safety: the value that measures faster; numerics.
Example: ``--set qdq_int8=1``
References: ``onnxruntime_session_options_config_keys.h``.
"""

from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="qdq_int8_allowed",
    aliases=("qdq_int8",),
    channel="session_config",
    key="session.qdqisint8allowed",
    kind="bool",
    default="off on x86, on for ARM",
    safety="numerics",
    summary="int8 activations stay int8",
    tries=("1",),
    prior=SELDOM,
    applies=lambda model: model.qdq,
)
