"""Processors, GPUs and NPUs of Intel, by OpenVINO."""

from ortune.targets.target import DESKTOP, Target

TARGET = Target(
    name="openvino",
    provider="OpenVINOExecutionProvider",
    wheel="onnxruntime-openvino",
    systems=DESKTOP,
    plugin="onnxruntime-ep-openvino",
    made="openvino",
    ships=True,
)
