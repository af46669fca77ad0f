"""AMD GPUs, by MIGraphX."""

from __future__ import annotations

from ortune.targets.target import Target

TARGET = Target(
    name="migraphx",
    provider="MIGraphXExecutionProvider",
    wheel="onnxruntime-migraphx",
)
