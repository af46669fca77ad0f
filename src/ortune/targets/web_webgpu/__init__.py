"""GPUs of any maker, by WebGPU in a browser."""

from ortune.targets.browser.target import WebTarget

TARGET = WebTarget(
    name="web-webgpu",
    provider="webgpu",
    otherwise="onnxruntime-web in a browser",
    ships=True,
    in_trace="WebGpuExecutionProvider",
    options=frozenset({"preferredLayout", "storageBufferCacheMode", "validationMode"}),
)
