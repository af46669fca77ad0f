"""The largest shapes that engines are built for.

What it is: input names with their largest sizes; min, opt and max must be set together.
Why it costs: without them kernels are compiled again for each new size.
Evidence: runs that take as long as loading.
Fix and its safety: the shapes that the program really sends; numerics, since kernels are chosen for the usual shape.
Example: ``--target tensorrt-rtx --set rtx_profile_min=x:1x3x224x224 --set rtx_profile_opt=x:4x3x224x224 --set
    rtx_profile_max=x:8x3x224x224``
References: onnxruntime-ep-nv-tensorrt-rtx 0.5.0, ``nv_profile_max_shapes``. Untested by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.tensorrt_rtx import PROVIDER as TENSORRT_RTX

KNOB = Knob(
    name="rtx_profile_max",
    channel="provider_option",
    provider=TENSORRT_RTX.name,
    key="nv_profile_max_shapes",
    kind="text",
    pattern="[^\\s:,]+:[0-9]+(x[0-9]+)*(,[^\\s:,]+:[0-9]+(x[0-9]+)*)*",
    default="dynamic shapes",
    safety="numerics",
    summary="largest shapes of engines",
)
