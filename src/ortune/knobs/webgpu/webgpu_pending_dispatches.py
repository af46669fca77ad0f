"""How many kernels are recorded before they are submitted.

What it is: the host records this many kernels before it submits them together.
Why it costs: with few, the GPU starts earlier in a run; with many, there are fewer submissions.
Evidence: latency of models with many small kernels.
Fix and its safety: the number that measures faster; exact.
Example: ``--target webgpu --set webgpu_pending_dispatches=64``
References: onnxruntime-ep-webgpu, ``maxNumPendingDispatches`` (not in release 0.1.0).
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.webgpu import PROVIDER as WEBGPU

KNOB = Knob(
    name="webgpu_pending_dispatches",
    since="1.24.4",
    channel="provider_option",
    provider=WEBGPU.name,
    key="maxNumPendingDispatches",
    kind="int",
    minimum=1,
    maximum=4096,
    default="16",
    summary="kernels submitted together",
    tries=("64", "4"),
    prior=SELDOM,
)
