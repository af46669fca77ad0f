"""Which of Apple's processors Core ML may use.

What it is: all, only the CPU, the CPU with the GPU, or the CPU with the Neural Engine.
Why it costs: copies between processors take time, and a model may be slower on one of them.
Evidence: latency on the device.
Fix and its safety: the processors that measure fastest; numerics, since the Neural Engine computes in float16.
Example: ``--target coreml --set coreml_units=cpuandneuralengine``
References: ONNX Runtime documentation, "CoreML Execution Provider", ``MLComputeUnits``. Untested by ortune.
"""

from ortune.knobs.knob import OFTEN, Knob
from ortune.providers.coreml import PROVIDER as COREML

KNOB = Knob(
    name="coreml_units",
    since="1.21",
    channel="provider_option",
    provider=COREML.name,
    key="MLComputeUnits",
    kind="choice",
    choices=("all", "cpuonly", "cpuandgpu", "cpuandneuralengine"),
    spelled=(
        ("all", "ALL"),
        ("cpuonly", "CPUOnly"),
        ("cpuandgpu", "CPUAndGPU"),
        ("cpuandneuralengine", "CPUAndNeuralEngine"),
    ),
    default="all",
    safety="numerics",
    summary="processors that Core ML may use",
    tries=("cpuandneuralengine", "cpuandgpu"),
    prior=OFTEN,
)
