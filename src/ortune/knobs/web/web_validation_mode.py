"""How thoroughly ONNX Runtime checks its own use of WebGPU.

What it is: ``disabled``, ``wgpuonly`` (the browser's own checks), ``basic`` or ``full``. Only the native builds
    (asyncify, jspi) read this setting.
Why it costs: each kernel is checked; ``full`` is for debugging.
Evidence: latency of models with many small kernels.
Fix and its safety: ``wgpuonly`` if it measured faster; behaviour: errors in kernels are then reported less clearly.
Example: ``--target web-webgpu --set web_validation_mode=wgpuonly``
References: onnxruntime-common, ``validationMode``.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.web_webgpu import PROVIDER as WEB_WEBGPU

KNOB = Knob(
    name="web_validation_mode",
    since="1.24",
    channel="provider_option",
    key="validationMode",
    provider=WEB_WEBGPU.name,
    builds=("asyncify", "jspi"),
    kind="choice",
    choices=("disabled", "wgpuonly", "basic", "full"),
    spelled=(("wgpuonly", "wgpuOnly"),),
    default="basic",
    safety="behaviour",
    summary="checks of WebGPU's kernels",
    tries=("wgpuonly",),
    prior=SELDOM,
)
