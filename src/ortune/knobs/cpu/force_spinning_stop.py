"""Whether pool threads stop spinning as soon as the last run returns.

What it is: threads spin inside a run, and go to sleep when no run is under way.
Why it costs: if calls are far apart, spinning between them wastes CPU time. Without spinning, the first operator of
    the next run has to wake the threads.
Evidence: CPU time over wall time while idle after the runs.
Fix and its safety: on where calls are far apart and the model has many operators; exact.
Example: ``--set spin_stop=1``
References: ``onnxruntime_session_options_config_keys.h``; microsoft/onnxruntime#13808.
"""

from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="force_spinning_stop",
    aliases=("spin_stop",),
    channel="session_config",
    key="session.force_spinning_stop",
    kind="bool",
    default="off",
    probe="idle",
    summary="pool threads stop spinning when the last run returns",
    under_load=True,
    tries=("1",),
    prior=SELDOM,
    priors={"cpu": 0.6},
)
