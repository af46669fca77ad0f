"""Whether Core ML takes nodes inside Loop, Scan and If.

What it is: with 1 the bodies of control flow are partitioned too.
Why it costs: each body becomes a separate Core ML model, called in every iteration.
Evidence: placement, and latency of models with control flow.
Fix and its safety: on where it measures faster; exact.
Example: ``--target coreml --set coreml_subgraphs=1``
References: ONNX Runtime documentation, "CoreML Execution Provider", ``EnableOnSubgraphs``. Untested by ortune.
"""

from ortune.knobs.facts import CONTROL_FLOW
from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.coreml import PROVIDER as COREML

KNOB = Knob(
    name="coreml_subgraphs",
    since="1.21",
    channel="provider_option",
    provider=COREML.name,
    key="EnableOnSubgraphs",
    kind="choice",
    choices=("0", "1"),
    default="0",
    summary="nodes inside control flow",
    tries=("1",),
    prior=SELDOM,
    applies=lambda model: model.has(*CONTROL_FLOW),
)
