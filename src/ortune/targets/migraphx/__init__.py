"""AMD GPUs, by MIGraphX."""

from ortune.targets.target import Target

TARGET = Target(
    name="migraphx",
    provider="MIGraphXExecutionProvider",
    wheel="onnxruntime-migraphx",
)
