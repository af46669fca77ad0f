"""GPUs of any maker, by WebGPU in a browser."""

from ortune.targets.browser.target import WebTarget

TARGET = WebTarget(
    name="web-webgpu",
    provider="webgpu",
    otherwise="onnxruntime-web in a browser",
    ships=True,
    in_trace="JsExecutionProvider",  # of the default build; of the native ones it is WebGpuExecutionProvider
    options=frozenset({"preferredLayout", "storageBufferCacheMode", "validationMode"}),
)
