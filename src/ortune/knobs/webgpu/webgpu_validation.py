"""How thoroughly ONNX Runtime checks its own use of WebGPU.

What it is: ``disabled``, ``wgpuonly`` (Dawn's own checks), ``basic`` or ``full``.
Why it costs: each kernel is checked; ``full`` is for debugging.
Evidence: latency of models with many small kernels.
Fix and its safety: ``disabled`` where it measures faster; behaviour: an error in a kernel is then reported less
    clearly.
Example: ``--target webgpu --set webgpu_validation=disabled``
References: onnxruntime-ep-webgpu, ``validationMode``.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.webgpu import PROVIDER as WEBGPU

KNOB = Knob(
    name="webgpu_validation",
    since="1.24.4",
    channel="provider_option",
    provider=WEBGPU.name,
    key="validationMode",
    kind="choice",
    choices=("disabled", "wgpuonly", "basic", "full"),
    spelled=(("wgpuonly", "wgpuOnly"),),
    default="basic",
    safety="behaviour",
    summary="checks of WebGPU's kernels",
    tries=("disabled",),
    prior=SELDOM,
)
