"""Whether a tensor may take over the memory of one that is no longer needed.

What it is: the planner lets outputs of later operators overwrite the buffers of earlier ones.
Why it costs: without reuse, every tensor has its own memory, so less of it fits into the caches. Reuse is nearly
    always better.
Evidence: latency and peak memory.
Fix and its safety: leave it on, unless a measurement shows a gain; exact.
Example: ``--set reuse=0``
References: ONNX Runtime Python API, ``SessionOptions.enable_mem_reuse``.
"""

from ortune.knobs.knob import Knob

KNOB = Knob(
    name="enable_mem_reuse",
    aliases=("reuse",),
    channel="session_option",
    key="enable_mem_reuse",
    kind="bool",
    default="on",
    summary="tensors reuse freed memory",
)
