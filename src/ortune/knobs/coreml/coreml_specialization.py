"""What Core ML optimises for when it compiles.

What it is: ``default``, or ``fastprediction``, which spends more time and memory on compiling.
Why it costs: a model that is compiled quickly may run more slowly.
Evidence: load time and latency on the device.
Fix and its safety: ``fastprediction`` where a model is loaded once and run often; exact.
Example: ``--target coreml --set coreml_specialization=fastprediction``
References: ONNX Runtime documentation, "CoreML Execution Provider", ``SpecializationStrategy``. Untested by ortune.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.coreml import PROVIDER as COREML

KNOB = Knob(
    name="coreml_specialization",
    since="1.21",
    channel="provider_option",
    provider=COREML.name,
    key="SpecializationStrategy",
    kind="choice",
    choices=("default", "fastprediction"),
    spelled=(("default", "Default"), ("fastprediction", "FastPrediction")),
    default="default",
    summary="what compiling optimises for",
    tries=("fastprediction",),
    prior=SELDOM,
    priors={"cold-start": 0.0, "memory": 0.0},
)
