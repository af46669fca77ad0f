"""Which of two GPUs WebGPU uses.

What it is: ``high-performance`` or ``low-power``, for machines with two GPUs.
Why it costs: the integrated GPU is several times slower than a discrete one, which uses more power.
Evidence: the adapter's name in the log; latency.
Fix and its safety: ``low-power`` where battery life matters; behaviour.
Example: ``--target webgpu --set webgpu_power=low-power``
References: onnxruntime-ep-webgpu, ``powerPreference``.
"""

from ortune.knobs.knob import Knob
from ortune.providers.webgpu import PROVIDER as WEBGPU

KNOB = Knob(
    name="webgpu_power",
    since="1.24.4",
    channel="provider_option",
    provider=WEBGPU.name,
    key="powerPreference",
    kind="choice",
    choices=("high-performance", "low-power"),
    default="high-performance",
    safety="behaviour",
    summary="which of two GPUs is used",
)
