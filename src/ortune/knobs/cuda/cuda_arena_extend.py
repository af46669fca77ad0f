"""How the GPU's arena grows.

What it is: ``doubling`` makes each extension twice as large as the last; ``as_requested`` allocates exactly what is
    requested.
Why it costs: doubling holds up to twice the memory that is used; exact requests call the driver more often, until the
    arena is large enough.
Evidence: the GPU's memory, and time of the first runs.
Fix and its safety: ``as_requested`` where memory is short or several sessions share the GPU; exact.
Example: ``--target cuda --set cuda_arena_extend=as_requested``
References: ONNX Runtime documentation, "CUDA Execution Provider", ``arena_extend_strategy``.
"""

from ortune.knobs.knob import Knob
from ortune.providers.cuda import PROVIDER as CUDA

KNOB = Knob(
    name="cuda_arena_extend",
    channel="provider_option",
    provider=CUDA.name,
    key="arena_extend_strategy",
    kind="choice",
    choices=("doubling", "as_requested"),
    spelled=(("doubling", "kNextPowerOfTwo"), ("as_requested", "kSameAsRequested")),
    default="doubling",
    summary="how the GPU's arena grows",
    tries=("as_requested",),
    priors={"latency": 0.0, "memory": 0.3, "cold-start": 0.05},
)
