"""AMD GPUs, by MIGraphX."""

from ortune.targets.target import Target

TARGET = Target(
    name="migraphx",
    provider="MIGraphXExecutionProvider",
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
)
