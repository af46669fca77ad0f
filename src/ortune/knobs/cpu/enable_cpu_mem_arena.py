"""Whether the CPU provider allocates memory from its own arena.

What it is: the arena keeps freed memory and grows in powers of two; without it, each tensor uses malloc and free.
Why it costs: the arena keeps the peak memory forever. Without it, every allocation goes to the process's allocator; a
    good one can be faster than the arena for small models.
Evidence: peak memory, latency.
Fix and its safety: off for small models with a fast allocator, or where memory matters; exact.
Example: ``--set arena=0``
References: microsoft/onnxruntime#22271, #11118.
"""

from ortune.knobs.knob import OFTEN, Knob

KNOB = Knob(
    name="enable_cpu_mem_arena",
    aliases=("arena",),
    channel="session_option",
    key="enable_cpu_mem_arena",
    kind="bool",
    default="on",
    summary="CPU memory arena",
    tries=("0",),
    prior=OFTEN,
    priors={"memory": 0.8},
    triton="enable_mem_arena",
)
