"""GPUs of any maker, by WebGPU outside of a browser."""

from ortune.targets.target import Target

TARGET = Target(
    name="webgpu",
    provider="WebGpuExecutionProvider",
    wheel="onnxruntime-webgpu",
    systems=("Linux", "Windows", "Darwin"),
    plugin="onnxruntime-ep-webgpu",
    options=frozenset(
        {
            "preferredLayout",
            "enableGraphCapture",
            "powerPreference",
            "validationMode",
        }
    ),
)
