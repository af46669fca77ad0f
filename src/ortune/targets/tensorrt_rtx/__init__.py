"""NVIDIA GPUs of desktops, by TensorRT for RTX."""

from ortune.targets.target import DESKTOP, Target

TARGET = Target(
    name="tensorrt-rtx",
    provider="NvTensorRTRTXExecutionProvider",
    wheel="onnxruntime-trt-rtx",
    systems=DESKTOP,
    plugin="onnxruntime-ep-nv-tensorrt-rtx",
    options=frozenset(
        {
            "device_id",
            "nv_max_workspace_size",
            "nv_cuda_graph_enable",
            "nv_profile_min_shapes",
            "nv_profile_max_shapes",
            "nv_profile_opt_shapes",
        }
    ),
)
