"""Whether Core ML takes only nodes whose shapes are known.

What it is: with the value 1, nodes with dynamic dimensions stay on the CPU.
Why it costs: Core ML compiles again for new shapes, and the Neural Engine supports only fixed shapes.
Evidence: placement, and latency when sizes change.
Fix and its safety: on where sizes change often; exact.
Example: ``--target coreml --set coreml_static_shapes=1``
References: ONNX Runtime documentation, "CoreML Execution Provider", ``RequireStaticInputShapes``. Untested by ortune.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.coreml import PROVIDER as COREML

KNOB = Knob(
    name="coreml_static_shapes",
    since="1.21",
    channel="provider_option",
    provider=COREML.name,
    key="RequireStaticInputShapes",
    kind="choice",
    choices=("0", "1"),
    default="0",
    summary="only nodes with fixed shapes",
    tries=("1",),
    prior=SELDOM,
)
