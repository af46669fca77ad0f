"""Whether TensorRT keeps the timings of its kernels on disk.

What it is: a later build of a similar engine reads them and skips kernels that were already timed.
Why it costs: most of a build is timing.
Evidence: load time of a second session.
Fix and its safety: on where engines cannot be cached; behaviour, since a file appears in the working directory.
Example: ``--target tensorrt --set trt_timing_cache=1``
References: ONNX Runtime documentation, "TensorRT Execution Provider", ``trt_timing_cache_enable``. Untested by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.tensorrt import PROVIDER as TENSORRT

KNOB = Knob(
    name="trt_timing_cache",
    since="1.15",
    channel="provider_option",
    provider=TENSORRT.name,
    key="trt_timing_cache_enable",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="behaviour",
    summary="kernel timings cached on disk",
)
