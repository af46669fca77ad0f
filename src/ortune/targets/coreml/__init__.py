"""Processors, GPUs and NPUs of Apple."""

from __future__ import annotations

from ortune.targets.target import Target

TARGET = Target(
    name="coreml",
    provider="CoreMLExecutionProvider",
    wheel="onnxruntime",
    systems=("Darwin",),
)
