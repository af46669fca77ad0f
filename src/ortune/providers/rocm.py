"""AMD GPUs, through ROCm."""

from ortune.providers.provider import Bindings, Provider

PROVIDER = Provider(
    name="ROCMExecutionProvider",
    target="rocm",
    wheel="onnxruntime-rocm",
    otherwise="removed in release 1.23; use MIGraphX",
    options=frozenset(
        {
            "device_id",
            "gpu_mem_limit",
            "arena_extend_strategy",
            "miopen_conv_exhaustive_search",
            "miopen_conv_use_max_workspace",
            "do_copy_in_default_stream",
            "enable_hip_graph",
            "tunable_op_enable",
            "tunable_op_tuning_enable",
            "tunable_op_max_tuning_duration_ms",
        }
    ),
    bindings=Bindings(rust="ROCm"),
    hardware="gpu",
    vendor="AMD",
    queues=True,
    float16=True,
)
