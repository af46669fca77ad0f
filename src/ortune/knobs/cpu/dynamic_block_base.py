"""How finely parallel work is divided for threads of unequal speed.

What it is: with a value n above 0 the pool hands out blocks that shrink towards the end, so a delayed thread does not
    keep the others waiting.
Why it costs: with equal blocks the slowest thread determines the time; finer blocks need more synchronisation.
Evidence: variation of latency within a process; thread wait in the profile.
Fix and its safety: 4 is the usual value where latency varies; exact.
Example: ``--set block=4``
References: ONNX Runtime documentation, "Thread management" (dynamic block sizing).
"""

from ortune.knobs.knob import OFTEN, Knob

KNOB = Knob(
    name="dynamic_block_base",
    aliases=("block",),
    channel="session_config",
    key="session.dynamic_block_base",
    kind="int",
    minimum=0,
    default="0 (equal blocks)",
    summary="work blocks that shrink towards the end",
    under_load=True,
    tries=("4",),
    prior=OFTEN,
    priors={"p95": 0.4},
)
