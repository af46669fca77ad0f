"""Whether matrix products use the variant that measured fastest.

What it is: operators with several implementations run the one that tuning found; with ``cuda_tunable_op_tuning`` the
    session times them itself.
Why it costs: the default choice follows heuristics, which fail for some sizes; timing takes seconds in the first runs.
Evidence: latency, and time of the first run.
Fix and its safety: on, with tuning, where it measures faster; numerics.
Example: ``--target cuda --set cuda_tunable_op=1 --set cuda_tunable_op_tuning=1``
References: ONNX Runtime documentation, "CUDA Execution Provider", ``tunable_op_enable``.
"""

from ortune.knobs.knob import Knob
from ortune.providers.cuda import PROVIDER as CUDA

KNOB = Knob(
    name="cuda_tunable_op",
    since="1.15",
    channel="provider_option",
    provider=CUDA.name,
    key="tunable_op_enable",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="numerics",
    summary="matrix products in the fastest measured variant",
)
