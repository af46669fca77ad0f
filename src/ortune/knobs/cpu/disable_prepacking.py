"""Whether weights are left as they are instead of being packed for the kernels.

What it is: at session creation MatMul, Gemm and others copy their weights into the layout that their kernel reads.
Why it costs: packing takes time and holds the weights twice for a while; without it every run packs again.
Evidence: load time, peak memory and latency.
Fix and its safety: on where start or memory counts more than the runs; exact.
Example: ``--set prepack_off=1``
References: ``onnxruntime_session_options_config_keys.h``.
"""

from ortune.records import Knob

KNOB = Knob(
    name="disable_prepacking",
    aliases=("prepack_off",),
    channel="session_config",
    key="session.disable_prepacking",
    kind="bool",
    default="off",
    conflicts=("parallel_prepacking",),
    summary="weights are not packed at session creation",
    tries=("1",),
    group="late",
    per_model=True,
)
