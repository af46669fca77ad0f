"""GPUs of any maker, by WebGPU outside of a browser."""

from ortune.providers.provider import EVERYWHERE, Bindings, Provider

PROVIDER = Provider(
    name="WebGpuExecutionProvider",
    target="webgpu",
    wheel="onnxruntime-webgpu",
    systems=EVERYWHERE,
    plugin="onnxruntime-ep-webgpu",
    options=frozenset(
        {
            "preferredLayout",
            "enableGraphCapture",
            "powerPreference",
            "validationMode",
        }
    ),
    bindings=Bindings(by_name="WebGPU", java_map="addWebGPU", node="webgpu", rust="WebGPU"),
    hardware="gpu",
    queues=True,
    float16=True,
    int32=True,
)
