"""What WebGPU does with the memory of tensors that are done with.

What it is: bucket keeps buffers by sizes rounded up, simple by exact size, lazyRelease until the end of the run,
    disabled frees them at once. Only the native builds (asyncify, jspi) read it.
Why it costs: making a buffer takes time; keeping one takes memory, and rounding up takes more of it.
Evidence: latency; memory of the GPU. Where sizes grow, as a decoder's cache does, steps at certain lengths.
Fix and its safety: simple for models of fixed sizes where memory counts; exact.
Example: ``--target web-webgpu --set web_storage_buffer_cache=simple``
References: onnxruntime-common, ``storageBufferCacheMode``; huggingface/transformers.js#1741.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.web_webgpu import PROVIDER as WEB_WEBGPU

KNOB = Knob(
    name="web_storage_buffer_cache",
    since="1.29",
    channel="provider_option",
    key="storageBufferCacheMode",
    provider=WEB_WEBGPU.name,
    builds=("asyncify", "jspi"),
    kind="choice",
    choices=("disabled", "lazyrelease", "simple", "bucket"),
    spelled=(("lazyrelease", "lazyRelease"),),
    default="bucket",
    summary="what happens to unused buffers",
    tries=("simple",),
    prior=SELDOM,
    priors={"memory": 0.4},
)
