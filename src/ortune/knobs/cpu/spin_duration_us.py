"""How long idle threads of the intra-op pool spin before they sleep, in microseconds.

What it is: a limit in time; the default counts pause instructions, which take longer on slower processors.
Why it costs: long spinning wastes CPU time between calls; without spinning, each piece of work has to wake a thread.
Evidence: CPU time over wall time while idle after the runs; latency.
Fix and its safety: a few hundred microseconds keep most of the speed and avoid most of the idle load; exact.
Example: ``--set spin_us=200``
References: microsoft/onnxruntime#27916.
"""

from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="spin_duration_us",
    aliases=("spin_us",),
    since="1.26",
    channel="session_config",
    key="session.intra_op.spin_duration_us",
    kind="int",
    minimum=0,
    default="a fixed number of spin iterations",
    probe="idle",
    conflicts=("allow_spinning",),
    summary="microseconds that idle pool threads spin",
    under_load=True,
    tries=("200", "2000"),
    prior=SELDOM,
    priors={"cpu": 0.8},
)
