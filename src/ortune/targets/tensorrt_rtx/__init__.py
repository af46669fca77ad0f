"""NVIDIA GPUs of desktops, by TensorRT for RTX."""

from ortune.targets.target import DESKTOP, Target

TARGET = Target(
    name="tensorrt-rtx",
    provider="NvTensorRTRTXExecutionProvider",
    wheel="onnxruntime-trt-rtx",
    systems=DESKTOP,
    plugin="onnxruntime-ep-nv-tensorrt-rtx",
)
