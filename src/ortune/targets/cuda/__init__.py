"""NVIDIA GPUs, by CUDA and cuDNN."""

from __future__ import annotations

from ortune.targets.target import DESKTOP, Target

TARGET = Target(
    name="cuda",
    provider="CUDAExecutionProvider",
    wheel="onnxruntime-gpu",
    systems=DESKTOP,
)
