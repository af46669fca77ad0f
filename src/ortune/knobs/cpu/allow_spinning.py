"""Whether idle threads of the intra-op pool spin before they sleep.

What it is: after each piece of work, a pool thread polls for more work for tens of milliseconds before it sleeps.
Why it costs: spinning lets the next run start sooner, but uses CPU time that other programs, other sessions or a CPU
    quota need.
Evidence: CPU time over wall time while idle after the runs.
Fix and its safety: off where calls are far apart or CPUs are shared; exact.
Example: ``--set spin=0``
References: microsoft/onnxruntime#13808, #27916.
"""

from ortune.knobs.knob import OFTEN, Knob

KNOB = Knob(
    name="allow_spinning",
    aliases=("spin", "spinning"),
    channel="session_config",
    key="session.intra_op.allow_spinning",
    kind="bool",
    default="on",
    probe="idle",
    summary="idle pool threads spin before they sleep",
    under_load=True,
    tries=("0",),
    prior=OFTEN,
    priors={"p95": 0.3, "throughput": 0.3, "cpu": 0.9},
)
