"""The GPU in a page, by WebGPU in onnxruntime-web."""

from ortune.targets.target import PAGE, Target

TARGET = Target(
    name="web-webgpu",
    provider="webgpu",
    otherwise="it is in onnxruntime-web, in a browser",
    channels=PAGE,
    options=frozenset({"preferredLayout", "storageBufferCacheMode", "validationMode"}),
)
