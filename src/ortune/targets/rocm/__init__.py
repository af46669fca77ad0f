"""AMD GPUs, by ROCm."""

from ortune.targets.target import Target

TARGET = Target(
    name="rocm",
    provider="ROCMExecutionProvider",
    wheel="onnxruntime-rocm",
    otherwise="releases since 1.23 no longer have it: use MIGraphX",
)
