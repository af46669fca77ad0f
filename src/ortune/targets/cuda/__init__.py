"""NVIDIA GPUs, by CUDA and cuDNN."""

from ortune.targets.target import DESKTOP, Target

TARGET = Target(
    name="cuda",
    provider="CUDAExecutionProvider",
    wheel="onnxruntime-gpu",
    systems=DESKTOP,
)
