"""NVIDIA GPUs, by CUDA and cuDNN."""

from ortune.providers.provider import DESKTOP, Bindings, Provider

PROVIDER = Provider(
    name="CUDAExecutionProvider",
    target="cuda",
    aliases=("gpu",),
    wheel="onnxruntime-gpu",
    systems=DESKTOP,
    options=frozenset(
        {
            "device_id",
            "gpu_mem_limit",
            "arena_extend_strategy",
            "cudnn_conv_algo_search",
            "do_copy_in_default_stream",
            "cudnn_conv_use_max_workspace",
            "cudnn_conv1d_pad_to_nc1d",
            "enable_cuda_graph",
            "tunable_op_enable",
            "tunable_op_tuning_enable",
            "tunable_op_max_tuning_duration_ms",
            "prefer_nhwc",
            "use_tf32",
            "fuse_conv_bias",
            "sdpa_kernel",
            "enable_skip_layer_norm_strict_mode",
            "use_ep_level_unified_stream",
        }
    ),
    bindings=Bindings(
        options_class="CUDA", node="cuda", rust="CUDA", triton=("gpu_execution_accelerator", "cuda")
    ),
    hardware="gpu",
    vendor="NVIDIA",
    queues=True,
    float16=True,
)
