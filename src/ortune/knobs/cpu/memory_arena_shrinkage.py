"""Whether the CPU arena returns memory to the system after each run.

What it is: a run option: regions of the arena that are free when the run ends go back to the system.
Why it costs: without it one large input keeps its memory forever; with it, the next run has to allocate again.
Evidence: resident memory between runs, latency.
Fix and its safety: on where large inputs are rare; exact.
Example: ``--set shrink=cpu:0``
References: ONNX Runtime documentation, "Memory consumption"; microsoft/onnxruntime#23339.
"""

from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="memory_arena_shrinkage",
    aliases=("shrink",),
    channel="run_config",
    key="memory.enable_memory_arena_shrinkage",
    kind="choice",
    choices=("cpu:0",),
    default="off",
    conflicts=("enable_cpu_mem_arena",),
    summary="the arena returns memory after each run",
    tries=("cpu:0",),
    prior=SELDOM,
    priors={"memory": 0.4},
    triton="memory.enable_memory_arena_shrinkage",
)
