"""How the GPU's arena grows.

What it is: ``doubling`` makes each extension twice as large as the last; ``as_requested`` allocates exactly what is
    requested.
Why it costs: doubling holds up to twice the memory that is used; exact requests call the driver more often.
Evidence: the GPU's memory, and time of the first runs.
Fix and its safety: ``as_requested`` where memory is short; exact.
Example: ``--target migraphx --set migraphx_arena_extend=as_requested``
References: onnxruntime-migraphx 1.27.1, ``migraphx_arena_extend_strategy``. Untested by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.migraphx import PROVIDER as MIGRAPHX

KNOB = Knob(
    name="migraphx_arena_extend",
    channel="provider_option",
    provider=MIGRAPHX.name,
    key="migraphx_arena_extend_strategy",
    kind="choice",
    choices=("doubling", "as_requested"),
    spelled=(("doubling", "kNextPowerOfTwo"), ("as_requested", "kSameAsRequested")),
    default="doubling",
    summary="how the GPU's arena grows",
    tries=("as_requested",),
    priors={"latency": 0.0, "memory": 0.3},
)
