"""How many streams an engine may use in addition to its own.

What it is: independent branches run concurrently; -1 lets TensorRT choose, 0 means none.
Why it costs: more streams need more memory and synchronisation; with fewer, branches wait.
Evidence: latency of models with branches, and the GPU's memory.
Fix and its safety: 0 if memory matters, otherwise the value that measured faster; exact.
Example: ``--target tensorrt --set trt_auxiliary_streams=0``
References: ONNX Runtime documentation, "TensorRT Execution Provider", ``trt_auxiliary_streams``. Untested by ortune.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.tensorrt import PROVIDER as TENSORRT

KNOB = Knob(
    name="trt_auxiliary_streams",
    since="1.16",
    channel="provider_option",
    provider=TENSORRT.name,
    key="trt_auxiliary_streams",
    kind="int",
    minimum=-1,
    maximum=64,
    default="-1: TensorRT's choice",
    summary="additional streams of an engine",
    tries=("0",),
    prior=SELDOM,
)
