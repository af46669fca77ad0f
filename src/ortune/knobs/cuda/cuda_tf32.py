"""Whether float32 products may be computed in TF32.

What it is: tensor cores of Ampere and later GPUs can multiply float32 numbers with ten bits of mantissa. ONNX Runtime
    allows this by default.
Why it costs: full float32 takes three to four times as long on convolutions and products; TF32 has an error of about
    1e-3.
Evidence: latency, and the output error relative to the CPU.
Fix and its safety: off where float32 accuracy is required; numerics.
Example: ``--target cuda --set cuda_tf32=0``
References: ONNX Runtime documentation, "CUDA Execution Provider", ``use_tf32``.
"""

from ortune.knobs.knob import Knob
from ortune.providers.cuda import PROVIDER as CUDA

KNOB = Knob(
    name="cuda_tf32",
    since="1.18",
    channel="provider_option",
    provider=CUDA.name,
    key="use_tf32",
    kind="choice",
    choices=("0", "1"),
    default="1",
    safety="numerics",
    strict="0",
    summary="float32 products in TF32",
)
