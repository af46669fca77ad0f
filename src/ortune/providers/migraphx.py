"""AMD GPUs, through MIGraphX."""

from ortune.providers.provider import Bindings, Build, Provider

PROVIDER = Provider(
    name="MIGraphXExecutionProvider",
    target="migraphx",
    wheel="onnxruntime-migraphx",
    builds=(
        Build(
            wheel="onnxruntime-migraphx",
            releases=(("1.27.1", ""),),
            about_bytes=180_000_000,
            what="MIGraphX, which compiles the model for AMD GPUs; needs the ROCm libraries; untested by ortune",
        ),
    ),
    options=frozenset(
        {
            "device_id",
            "migraphx_fp16_enable",
            "migraphx_bf16_enable",
            "migraphx_fp8_enable",
            "migraphx_exhaustive_tune",
            "migraphx_mem_limit",
            "migraphx_arena_extend_strategy",
        }
    ),
    bindings=Bindings(by_name="MIGraphX"),
    hardware="gpu",
    vendor="AMD",
    queues=True,
    compiles=True,
    float16=True,
)
