"""Whether all threads that call a session share one stream.

What it is: by default each run has its own stream; with 1, all runs share one.
Why it costs: runs in one stream wait for each other; several streams compete for the GPU, and each holds memory.
Evidence: throughput with several callers, and the GPU's memory.
Fix and its safety: the value that measures better with as many callers as in production; behaviour.
Example: ``--target cuda --callers 4 --set cuda_unified_stream=1``
References: ONNX Runtime documentation, "CUDA Execution Provider", ``use_ep_level_unified_stream``.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.cuda import PROVIDER as CUDA

KNOB = Knob(
    name="cuda_unified_stream",
    since="1.17",
    channel="provider_option",
    provider=CUDA.name,
    key="use_ep_level_unified_stream",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="behaviour",
    summary="one stream for all callers",
    tries=("1",),
    priors={"latency": 0.0, "throughput": SELDOM},
)
