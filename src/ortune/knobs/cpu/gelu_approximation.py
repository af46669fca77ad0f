"""Whether Gelu is computed by its tanh approximation.

What it is: Gelu and BiasGelu become FastGelu after the other fusions.
Why it costs: the error function costs more than the tanh that approximates it.
Evidence: FastGelu in the optimised graph; latency.
Fix and its safety: on where the outputs stay within the tolerance; numerics.
Example: ``--set fast_gelu=1``
References: ``onnxruntime_session_options_config_keys.h``.
"""

from ortune.knobs.knob import OFTEN, Knob

KNOB = Knob(
    name="gelu_approximation",
    aliases=("fast_gelu",),
    channel="session_config",
    key="optimization.enable_gelu_approximation",
    kind="bool",
    default="off",
    safety="numerics",
    summary="Gelu as its tanh approximation",
    tries=("1",),
    prior=OFTEN,
    applies=lambda model: model.gelu,
    priors={"latency": 0.3},
)
