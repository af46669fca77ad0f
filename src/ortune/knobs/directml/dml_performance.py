"""Which of two GPUs DirectML uses.

What it is: ``high_performance``, ``minimum_power`` or the system's order of adapters.
Why it costs: the integrated GPU is several times slower than a discrete one, which uses more power.
Evidence: the adapter's name in the log; latency.
Fix and its safety: ``high_performance`` where speed matters; behaviour, since it uses more power.
Example: ``--target directml --set dml_performance=high_performance``
References: ONNX Runtime documentation, "DirectML Execution Provider"; ``performance_preference`` in
    onnxruntime-directml 1.24.4. Untested by ortune.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.directml import PROVIDER as DIRECTML

KNOB = Knob(
    name="dml_performance",
    since="1.17",
    channel="provider_option",
    provider=DIRECTML.name,
    key="performance_preference",
    kind="choice",
    choices=("default", "high_performance", "minimum_power"),
    default="default",
    safety="behaviour",
    summary="which of two GPUs is used",
    tries=("high_performance",),
    prior=SELDOM,
)
