"""NVIDIA GPUs, by TensorRT."""

from __future__ import annotations

from ortune.targets.target import DESKTOP, Target

TARGET = Target(
    name="tensorrt",
    provider="TensorrtExecutionProvider",
    wheel="onnxruntime-gpu",
    systems=DESKTOP,
)
