"""Whether the session times the variants of its operators itself.

What it is: the first run of each size tries every variant of a tunable operator and keeps the fastest.
Why it costs: the search takes seconds; without it, tunable operators have no times to choose by.
Evidence: time of the first run, and latency.
Fix and its safety: on together with ``cuda_tunable_op``, where a slow first run is acceptable; numerics.
Example: ``--target cuda --set cuda_tunable_op=1 --set cuda_tunable_op_tuning=1``
References: ONNX Runtime documentation, "CUDA Execution Provider", ``tunable_op_tuning_enable``.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.cuda import PROVIDER as CUDA

KNOB = Knob(
    name="cuda_tunable_op_tuning",
    since="1.15",
    channel="provider_option",
    provider=CUDA.name,
    key="tunable_op_tuning_enable",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="numerics",
    summary="operator variants are timed in the first run",
    tries=("1",),
    prior=SELDOM,
    priors={"cold-start": 0.0, "memory": 0.0},
    needs=("cuda_tunable_op=1",),
)
