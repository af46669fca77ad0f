"""GPUs of any vendor, through WebGPU outside a browser."""

from ortune.providers.provider import EVERYWHERE, Bindings, Build, Provider

PROVIDER = Provider(
    name="WebGpuExecutionProvider",
    target="webgpu",
    wheel="onnxruntime-webgpu",
    systems=EVERYWHERE,
    plugin="onnxruntime-ep-webgpu",
    ships=True,
    builds=(
        Build(
            wheel="onnxruntime-ep-webgpu",
            releases=(("0.4.0", ""),),
            beside="1.32.0",
            about_bytes=170_000_000,
            what="kernels for GPUs of any vendor, through Vulkan, Direct3D 12 or Metal",
        ),
    ),
    options=frozenset(
        {
            "preferredLayout",
            "enableInt64",
            "storageBufferCacheMode",
            "uniformBufferCacheMode",
            "maxNumPendingDispatches",
            "enableGraphCapture",
            "powerPreference",
            "validationMode",
        }
    ),
    bindings=Bindings(by_name="WebGPU", java_map="addWebGPU", node="webgpu", rust="WebGPU"),
    hardware="gpu",
    queues=True,
    memory="webgpu",
    graph_option="enableGraphCapture",
    float16=True,
    int32=True,
)
