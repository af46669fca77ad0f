"""Whether weights are allocated outside the arena.

What it is: initializers are allocated directly, and the arena holds only activations.
Why it costs: an arena that grows in powers of two holds far more than the weights need.
Evidence: peak memory.
Fix and its safety: on where memory matters; exact.
Example: ``--set own_weights=1``
References: ONNX Runtime documentation, "Memory consumption".
"""

from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="device_allocator_for_initializers",
    aliases=("own_weights",),
    channel="session_config",
    key="session.use_device_allocator_for_initializers",
    kind="bool",
    default="off",
    summary="weights outside the arena",
    tries=("1",),
    prior=SELDOM,
    priors={"memory": 0.5},
    triton="session.use_device_allocator_for_initializers",
)
