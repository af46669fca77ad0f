"""How the CPU arena grows.

What it is: ``power_of_two`` makes each new region twice as large as the last; ``same_as_requested`` allocates what is
    needed. The setting needs an arena that is registered with the environment and that the session is configured to
    use.
Why it costs: doubling takes up to twice the memory that is used; exact regions need more system calls during the first
    runs.
Evidence: peak memory; latency of the first runs.
Fix and its safety: ``same_as_requested`` where memory matters; exact.
Example: ``--set extend=same_as_requested``
References: ONNX Runtime documentation, "Memory consumption"; microsoft/onnxruntime#22271.
"""

from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="arena_extend_strategy",
    aliases=("extend",),
    since="1.19",
    channel="env_allocator",
    key="arena_extend_strategy",
    kind="choice",
    choices=("power_of_two", "same_as_requested"),
    spelled=(("power_of_two", "0"), ("same_as_requested", "1")),
    default="power_of_two",
    conflicts=("enable_cpu_mem_arena", "memory_arena_shrinkage"),
    summary="how the CPU arena grows",
    tries=("same_as_requested",),
    prior=SELDOM,
    priors={"memory": 0.7},
)
