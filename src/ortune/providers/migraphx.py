"""AMD GPUs, by MIGraphX."""

from ortune.providers.provider import Bindings, Provider

PROVIDER = Provider(
    name="MIGraphXExecutionProvider",
    target="migraphx",
    wheel="onnxruntime-migraphx",
    options=frozenset(
        {
            "device_id",
            "migraphx_fp16_enable",
            "migraphx_bf16_enable",
            "migraphx_fp8_enable",
            "migraphx_exhaustive_tune",
        }
    ),
    bindings=Bindings(by_name="MIGraphX"),
    hardware="gpu",
    vendor="AMD",
    queues=True,
    compiles=True,
    float16=True,
)
