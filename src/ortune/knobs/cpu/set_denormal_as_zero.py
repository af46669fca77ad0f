"""Whether denormal floats are treated as zero.

What it is: flush-to-zero and denormals-are-zero for the pool threads and the thread that creates the session.
Why it costs: many processors compute with denormal numbers in microcode, which is up to a hundred times slower; weights
    or activations near zero often contain them.
Evidence: a denormal multiplied by 0.1 in the calling thread is zero; latency with real inputs.
Fix and its safety: on where weights or activations contain denormals; numerics. The calling thread keeps the setting.
Example: ``--set denormal=1``
References: microsoft/onnxruntime#6865, #7448, #5472.
"""

from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="set_denormal_as_zero",
    aliases=("denormal",),
    channel="session_config",
    key="session.set_denormal_as_zero",
    kind="bool",
    default="off",
    probe="denormal",
    safety="numerics",
    summary="denormal floats are treated as zero",
    tries=("1",),
    prior=SELDOM,
)
