"""Whether WebGPU has kernels for 64-bit integers.

What it is: a few operators (Cast, Range, Unsqueeze, Expand, Equal, Sub, Where, ReduceSum) also accept int64 on the
    GPU; their kernels compute only the lower 32 bits.
Why it costs: otherwise these nodes run on the CPU, with copies to the CPU and back for each.
Evidence: placement of such nodes.
Fix and its safety: on where numbers fit into 32 bits; numerics: larger numbers are silently truncated. The rewrite
    int64-to-int32 proves that they fit.
Example: ``--target webgpu --set webgpu_int64=1``
References: onnxruntime-ep-webgpu, ``enableInt64``. microsoft/onnxruntime#29756
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.webgpu import PROVIDER as WEBGPU

KNOB = Knob(
    name="webgpu_int64",
    since="1.24.4",
    channel="provider_option",
    provider=WEBGPU.name,
    key="enableInt64",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="numerics",
    summary="kernels for 64-bit integers on the GPU",
    tries=("1",),
    prior=SELDOM,
)
