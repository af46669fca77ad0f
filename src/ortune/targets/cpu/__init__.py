"""The processor, by ONNX Runtime's own kernels."""

from ortune.targets.target import Target

TARGET = Target(
    name="cpu",
    provider="CPUExecutionProvider",
    wheel="onnxruntime",
    systems=("Linux", "Windows", "Darwin"),
    ships=True,
)
