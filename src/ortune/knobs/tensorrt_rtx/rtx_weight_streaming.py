"""How many bytes of weights stay on the GPU.

What it is: weights beyond the limit are copied from the host in each run; 0 keeps all weights on the GPU.
Why it costs: weights are copied in each run, but the model fits on a small GPU.
Evidence: latency, and the GPU's memory.
Fix and its safety: a limit only if the model does not fit; exact.
Example: ``--target tensorrt-rtx --set rtx_weight_streaming=1073741824``
References: onnxruntime-ep-nv-tensorrt-rtx 0.5.0, ``nv_weight_streaming_budget``. Untested by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.tensorrt_rtx import PROVIDER as TENSORRT_RTX

KNOB = Knob(
    name="rtx_weight_streaming",
    channel="provider_option",
    provider=TENSORRT_RTX.name,
    key="nv_weight_streaming_budget",
    kind="int",
    minimum=0,
    maximum=1125899906842624,
    default="provider's default",
    summary="weights that stay on the GPU, in bytes",
)
