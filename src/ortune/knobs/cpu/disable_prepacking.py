"""Whether weights are left as they are instead of being packed for the kernels.

What it is: at session creation MatMul, Gemm and others copy their weights into the layout that their kernel reads.
Why it costs: packing takes time and temporarily holds the weights twice; without it, every run packs them again.
Evidence: load time, peak memory and latency.
Fix and its safety: on where load time or memory matters more than latency; exact.
Example: ``--set prepack_off=1``
References: ``onnxruntime_session_options_config_keys.h``.
"""

from ortune.knobs.facts import PACKED
from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="disable_prepacking",
    aliases=("prepack_off",),
    channel="session_config",
    key="session.disable_prepacking",
    kind="bool",
    default="off",
    summary="weights are not packed at session creation",
    tries=("1",),
    prior=SELDOM,
    applies=lambda model: model.has(*PACKED),
    priors={"memory": 0.6, "cold-start": 0.6},
)
