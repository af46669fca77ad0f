"""Whether weights are packed by several threads when the session is created.

What it is: the packing of different weights runs at the same time in the intra-op pool.
Why it costs: without it, one thread packs all weights of a large model while the others wait.
Evidence: load time.
Fix and its safety: on where load time matters; exact.
Example: ``--set prepack_parallel=1``
References: ``onnxruntime_session_options_config_keys.h``.
"""

from ortune.knobs.facts import PACKED
from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="parallel_prepacking",
    aliases=("prepack_parallel",),
    since="1.31",
    channel="session_config",
    key="session.prepack.enable_parallel",
    kind="bool",
    default="off",
    conflicts=("disable_prepacking",),
    summary="weights are packed by several threads",
    tries=("1",),
    prior=SELDOM,
    applies=lambda model: model.has(*PACKED),
    priors={"latency": 0.0, "memory": 0.0, "cold-start": 0.5},
)
