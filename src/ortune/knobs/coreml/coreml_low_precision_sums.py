"""Whether the GPU may accumulate in float16.

What it is: products on the GPU are accumulated in float16 instead of float32.
Why it costs: accumulation in float16 is faster but loses precision.
Evidence: latency, and the output error relative to the CPU.
Fix and its safety: on where outputs stay within the tolerance; numerics.
Example: ``--target coreml --set coreml_low_precision_sums=1``
References: ONNX Runtime documentation, "CoreML Execution Provider", ``AllowLowPrecisionAccumulationOnGPU``. Untested by
    ortune.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.coreml import PROVIDER as COREML

KNOB = Knob(
    name="coreml_low_precision_sums",
    since="1.21",
    channel="provider_option",
    provider=COREML.name,
    key="AllowLowPrecisionAccumulationOnGPU",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="numerics",
    summary="accumulation in float16 on the GPU",
    tries=("1",),
    prior=SELDOM,
)
