"""Whether idle threads of the inter-op pool spin before they sleep.

What it is: the same as for the intra-op pool, for the pool that runs whole operators in parallel mode.
Why it costs: two spinning pools use more CPUs than exist, and take them from each other.
Evidence: CPU time over wall time while idle after the runs.
Fix and its safety: off where parallel mode is used on few CPUs; exact.
Example: ``--set inter_spin=0``
References: microsoft/onnxruntime#12891, #27916.
"""

from ortune.knobs.cpu.execution_mode import wide
from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="inter_op_allow_spinning",
    aliases=("inter_spin",),
    channel="session_config",
    key="session.inter_op.allow_spinning",
    kind="bool",
    default="on",
    probe="idle",
    summary="idle inter-op threads spin before they sleep",
    under_load=True,
    tries=("0",),
    prior=SELDOM,
    applies=wide,
    needs=("execution_mode=parallel",),
)
