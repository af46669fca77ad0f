"""Apple CPUs, GPUs and NPUs, through CoreML."""

from ortune.providers.provider import Bindings, Provider

NETWORK = "coreml-neuralnetwork"
"""The format NeuralNetwork, as ``partition`` calls it and its table is named; MLProgram has the provider's own name."""

PROVIDER = Provider(
    name="CoreMLExecutionProvider",
    target="coreml",
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
    bindings=Bindings(by_name="CoreML", java_map="addCoreML", node="coreml", rust="CoreML"),
    compiles=True,
    standard_operators=True,
    fixed_sizes=True,
    float16=True,
)
