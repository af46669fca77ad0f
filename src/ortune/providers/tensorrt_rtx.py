"""NVIDIA desktop GPUs, through TensorRT for RTX."""

from ortune.providers.provider import DESKTOP, Bindings, Build, Provider

PROVIDER = Provider(
    name="NvTensorRTRTXExecutionProvider",
    target="tensorrt-rtx",
    wheel="onnxruntime-trt-rtx",
    systems=DESKTOP,
    plugin="onnxruntime-ep-nv-tensorrt-rtx",
    builds=(
        Build(
            wheel="onnxruntime-ep-nv-tensorrt-rtx-cu13",
            releases=(("0.5.0", ""),),
            beside="1.32.0",
            about_bytes=480_000_000,
            what="TensorRT for RTX, which compiles the model for NVIDIA GPUs (Turing or newer); untested by ortune",
            cuda=13,
        ),
    ),
    ships=True,
    options=frozenset(
        {
            "device_id",
            "nv_max_workspace_size",
            "enable_cuda_graph",
            "nv_profile_min_shapes",
            "nv_profile_max_shapes",
            "nv_profile_opt_shapes",
            "nv_weight_streaming_budget",
            "nv_persistent_context_memory",
        }
    ),
    bindings=Bindings(by_name="NvTensorRtRtx", rust="NVRTX"),
    hardware="gpu",
    vendor="NVIDIA",
    queues=True,
    memory="cuda",
    graph_option="enable_cuda_graph",
    tracer="cupti",
    compiles=True,
    saves_compiled=True,
    float16=True,
)
