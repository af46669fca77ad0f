"""NPUs of Qualcomm."""

from ortune.targets.target import DESKTOP, Target

TARGET = Target(
    name="qnn",
    provider="QNNExecutionProvider",
    wheel="onnxruntime-qnn",
    systems=DESKTOP,
)
