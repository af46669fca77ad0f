"""How many times the graph optimisers run.

What it is: 0 runs each level once, 1 repeats them if the last level changed constants, 2 repeats them if any level from
    the second on changed the graph.
Why it costs: a pattern that one fusion creates is found only in the next round. Rounds take load time.
Evidence: operators of the optimised graph; load time.
Fix and its safety: 2 where it finds more, 0 where load time matters; exact (sums may be reassociated).
Example: ``--set loop=2``
References: ``onnxruntime_session_options_config_keys.h``.
"""

from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="graph_optimizations_loop_level",
    aliases=("loop",),
    since="1.23",
    channel="session_config",
    key="session.graph_optimizations_loop_level",
    kind="choice",
    choices=("0", "1", "2"),
    default="1",
    summary="rounds of the graph optimisers",
    tries=("2",),
    prior=SELDOM,
)
