"""Whether chains of Cast nodes are merged.

What it is: of consecutive Cast nodes only the last remains, without the rounding of the others.
Why it costs: each Cast is a pass over a tensor.
Evidence: Cast nodes in the optimised graph.
Fix and its safety: on for models with consecutive casts; numerics.
Example: ``--set cast_chains=1``
References: microsoft/onnxruntime#25824.
"""

from ortune.knobs.knob import OFTEN, Knob

KNOB = Knob(
    name="cast_chain_elimination",
    aliases=("cast_chains",),
    since="1.23",
    channel="session_config",
    key="optimization.enable_cast_chain_elimination",
    kind="bool",
    default="off",
    safety="numerics",
    summary="chains of Cast nodes become one",
    tries=("1",),
    prior=OFTEN,
    applies=lambda model: model.feeds({"Cast"}, {"Cast"}),
)
