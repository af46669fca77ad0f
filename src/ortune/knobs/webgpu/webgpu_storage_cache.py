"""What WebGPU does with the buffers of tensors that are no longer used.

What it is: ``bucket`` keeps buffers by rounded-up size, ``simple`` by exact size, ``lazyrelease`` until the end of the
    run; ``disabled`` frees them at once.
Why it costs: creating a buffer takes time; keeping one takes memory, and rounding up takes more.
Evidence: latency, and the GPU's memory.
Fix and its safety: ``simple`` for models with fixed sizes where memory matters; exact.
Example: ``--target webgpu --set webgpu_storage_cache=simple``
References: onnxruntime-ep-webgpu, ``storageBufferCacheMode``. huggingface/transformers.js#1741
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.webgpu import PROVIDER as WEBGPU

KNOB = Knob(
    name="webgpu_storage_cache",
    since="1.24.4",
    channel="provider_option",
    provider=WEBGPU.name,
    key="storageBufferCacheMode",
    kind="choice",
    choices=("disabled", "lazyrelease", "simple", "bucket"),
    spelled=(("lazyrelease", "lazyRelease"),),
    default="bucket",
    summary="buffers of tensors that are no longer used",
    tries=("simple",),
    prior=SELDOM,
    priors={"memory": 0.4},
)
