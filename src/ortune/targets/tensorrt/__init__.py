"""NVIDIA GPUs, by TensorRT."""

from ortune.targets.target import DESKTOP, Target

TARGET = Target(
    name="tensorrt",
    provider="TensorrtExecutionProvider",
    wheel="onnxruntime-gpu",
    systems=DESKTOP,
)
