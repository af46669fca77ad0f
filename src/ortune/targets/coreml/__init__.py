"""Processors, GPUs and NPUs of Apple."""

from ortune.targets.target import Target

TARGET = Target(
    name="coreml",
    provider="CoreMLExecutionProvider",
    wheel="onnxruntime",
    systems=("Darwin",),
    options=frozenset(
        {
            "ModelFormat",
            "MLComputeUnits",
            "RequireStaticInputShapes",
            "EnableOnSubgraphs",
            "SpecializationStrategy",
            "AllowLowPrecisionAccumulationOnGPU",
        }
    ),
)
