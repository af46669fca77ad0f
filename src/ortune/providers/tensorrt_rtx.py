"""NVIDIA GPUs of desktops, by TensorRT for RTX."""

from ortune.providers.provider import DESKTOP, Bindings, Provider

PROVIDER = Provider(
    name="NvTensorRTRTXExecutionProvider",
    target="tensorrt-rtx",
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
    bindings=Bindings(by_name="NvTensorRtRtx", rust="NVRTX"),
    hardware="gpu",
    vendor="NVIDIA",
    queues=True,
    compiles=True,
    float16=True,
)
