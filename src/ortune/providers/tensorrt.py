"""NVIDIA GPUs, through TensorRT."""

from ortune.providers.provider import DESKTOP, Bindings, Provider

PROVIDER = Provider(
    name="TensorrtExecutionProvider",
    target="tensorrt",
    aliases=("trt",),
    wheel="onnxruntime-gpu",
    systems=DESKTOP,
    by_hand=(
        "TensorRT 10 is not on the package index as a wheel; its package downloads it from NVIDIA. In your own "
        "environment: pip install 'onnxruntime-gpu[cuda,cudnn]==1.31.1' 'tensorrt-cu13<11', then --runtime PATH"
    ),
    ships=True,
    options=frozenset(
        {
            "device_id",
            "trt_max_workspace_size",
            "trt_max_partition_iterations",
            "trt_min_subgraph_size",
            "trt_fp16_enable",
            "trt_bf16_enable",
            "trt_int8_enable",
            "trt_dla_enable",
            "trt_dla_core",
            "trt_context_memory_sharing_enable",
            "trt_layer_norm_fp32_fallback",
            "trt_sparsity_enable",
            "trt_builder_optimization_level",
            "trt_auxiliary_streams",
            "trt_build_heuristics_enable",
            "trt_cuda_graph_enable",
            "trt_profile_min_shapes",
            "trt_profile_max_shapes",
            "trt_profile_opt_shapes",
        }
    ),
    bindings=Bindings(
        options_class="TensorRT",
        node="tensorrt",
        rust="TensorRT",
        triton=("gpu_execution_accelerator", "tensorrt"),
    ),
    hardware="gpu",
    vendor="NVIDIA",
    queues=True,
    memory="cuda",
    graph_option="trt_cuda_graph_enable",
    tracer="cupti",
    compiles=True,
    float16=True,
)
