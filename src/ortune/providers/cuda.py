"""NVIDIA GPUs, through CUDA and cuDNN."""

from ortune.providers.provider import DESKTOP, Bindings, Build, Provider

PROVIDER = Provider(
    name="CUDAExecutionProvider",
    target="cuda",
    aliases=("gpu",),
    wheel="onnxruntime-gpu",
    extras="[cuda,cudnn]",
    systems=DESKTOP,
    builds=(
        Build(
            wheel="onnxruntime-gpu",
            releases=(("1.31.1", ""),),
            about_bytes=2_900_000_000,
            what="kernels for NVIDIA GPUs, with CUDA 13 and cuDNN 9",
            brings=(
                "nvidia-cublas==13.10.0.20",
                "nvidia-cuda-cupti==13.5.25",  # times kernels for profile
                "nvidia-cuda-nvrtc==13.5.37",
                "nvidia-cuda-runtime==13.5.37",
                "nvidia-cudnn-cu13==9.28.1.4",
                "nvidia-cufft==12.5.0.14",
                "nvidia-curand==10.4.5.25",
                "nvidia-nvjitlink==13.5.37",
            ),
            cuda=13,
        ),
    ),
    ships=True,
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
    memory="cuda",
    graph_option="enable_cuda_graph",
    tracer="cupti",
    float16=True,
)
