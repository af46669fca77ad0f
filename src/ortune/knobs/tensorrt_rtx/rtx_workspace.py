"""The most scratch memory that the builder may use, in bytes.

What it is: kernels that need more are not tried; 0 leaves the choice to TensorRT.
Why it costs: too little memory excludes the fastest kernels.
Evidence: latency, and the GPU's memory.
Fix and its safety: a limit where the GPU is shared; numerics.
Example: ``--target tensorrt-rtx --set rtx_workspace=1073741824``
References: onnxruntime-ep-nv-tensorrt-rtx 0.5.0, ``nv_max_workspace_size``. Untested by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.tensorrt_rtx import PROVIDER as TENSORRT_RTX

KNOB = Knob(
    name="rtx_workspace",
    channel="provider_option",
    provider=TENSORRT_RTX.name,
    key="nv_max_workspace_size",
    kind="int",
    minimum=0,
    maximum=1125899906842624,
    default="0: TensorRT's choice",
    safety="numerics",
    summary="scratch memory, in bytes",
)
