"""The usual shapes that TensorRT's engines are built for.

What it is: input names with their usual sizes; min, opt and max must be set together.
Why it costs: without them, an input of a new size builds the engine again, which takes seconds to minutes.
Evidence: runs that take as long as loading.
Fix and its safety: the shapes that the program really sends; numerics, since kernels are chosen for the usual shape.
Example: ``--target tensorrt --set trt_profile_min=x:1x3x224x224 --set trt_profile_opt=x:4x3x224x224 --set
    trt_profile_max=x:8x3x224x224``
References: ONNX Runtime documentation, "TensorRT Execution Provider", ``trt_profile_opt_shapes``. Untested by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.tensorrt import PROVIDER as TENSORRT

KNOB = Knob(
    name="trt_profile_opt",
    since="1.14",
    channel="provider_option",
    provider=TENSORRT.name,
    key="trt_profile_opt_shapes",
    kind="text",
    pattern="[^\\s:,]+:[0-9]+(x[0-9]+)*(,[^\\s:,]+:[0-9]+(x[0-9]+)*)*",
    default="the shapes of the first run",
    safety="numerics",
    summary="usual shapes of TensorRT's engines",
)
