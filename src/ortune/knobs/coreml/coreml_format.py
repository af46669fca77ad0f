"""Which kind of Core ML model is created.

What it is: MLProgram, or the older NeuralNetwork, each with its own list of operators.
Why it costs: the older one has no float16 inputs and fewer operators, so more nodes stay on the CPU. An MLProgram
    computes in the types of the model, and the Neural Engine runs only float16, so a float32 model runs on GPU and CPU.
Evidence: placement: ``ortune partition`` shows both.
Fix and its safety: ``mlprogram`` on iOS 15, macOS 12 and newer, with a float16 model for the Neural Engine; numerics,
    since NeuralNetwork computes in float16 on GPU and Neural Engine.
Example: ``--target coreml --set coreml_format=mlprogram``
References: ONNX Runtime documentation, "CoreML Execution Provider", ``ModelFormat``; Core ML Tools, "Typed Execution".
    Untested by ortune.
"""

from ortune.knobs.knob import OFTEN, Knob
from ortune.providers.coreml import PROVIDER as COREML

KNOB = Knob(
    name="coreml_format",
    since="1.21",
    channel="provider_option",
    provider=COREML.name,
    key="ModelFormat",
    kind="choice",
    choices=("mlprogram", "neuralnetwork"),
    spelled=(("mlprogram", "MLProgram"), ("neuralnetwork", "NeuralNetwork")),
    default="neuralnetwork",
    safety="numerics",
    summary="the kind of Core ML model",
    tries=("mlprogram",),
    prior=OFTEN,
)
