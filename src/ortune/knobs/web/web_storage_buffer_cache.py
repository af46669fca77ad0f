"""What WebGPU does with the buffers of tensors that are no longer used.

What it is: ``bucket`` keeps buffers by rounded-up size, ``simple`` by exact size, ``lazyrelease`` until the end of the
    run; ``disabled`` frees them at once. Only the native builds (asyncify, jspi) read this setting.
Why it costs: creating a buffer takes time; keeping one takes memory, and rounding up takes more.
Evidence: latency; GPU memory. If sizes grow, as with a decoder's cache, latency has steps at certain lengths.
Fix and its safety: ``simple`` for models with fixed sizes where memory matters; exact.
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
