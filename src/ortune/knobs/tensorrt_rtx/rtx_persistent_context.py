"""Whether the scratch memory of a session stays allocated between runs.

What it is: with 1 the memory of the execution context is kept; with 0 it is allocated for each run.
Why it costs: allocating takes time in each run; keeping takes memory.
Evidence: latency, and the GPU's memory between runs.
Fix and its safety: the value that measures better; exact.
Example: ``--target tensorrt-rtx --set rtx_persistent_context=1``
References: onnxruntime-ep-nv-tensorrt-rtx 0.5.0, ``nv_persistent_context_memory``. Untested by ortune.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.tensorrt_rtx import PROVIDER as TENSORRT_RTX

KNOB = Knob(
    name="rtx_persistent_context",
    channel="provider_option",
    provider=TENSORRT_RTX.name,
    key="nv_persistent_context_memory",
    kind="choice",
    choices=("0", "1"),
    default="provider's default",
    summary="scratch memory kept between runs",
    tries=("1",),
    prior=SELDOM,
)
