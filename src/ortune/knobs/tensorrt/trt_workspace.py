"""The most scratch memory that TensorRT may use, in bytes.

What it is: kernels that need more are not tried; 0 means no limit.
Why it costs: too little memory excludes the fastest kernels.
Evidence: latency, and the GPU's memory.
Fix and its safety: a limit where the GPU is shared; numerics.
Example: ``--target tensorrt --set trt_workspace=1073741824``
References: ONNX Runtime documentation, "TensorRT Execution Provider", ``trt_max_workspace_size``. Untested by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.tensorrt import PROVIDER as TENSORRT

KNOB = Knob(
    name="trt_workspace",
    channel="provider_option",
    provider=TENSORRT.name,
    key="trt_max_workspace_size",
    kind="int",
    minimum=0,
    maximum=1 << 50,
    default="0: no limit",
    safety="numerics",
    summary="workspace of TensorRT, in bytes",
)
