"""Whether TensorRT keeps its engines on disk.

What it is: the first session writes each engine to disk, and later ones read it: in the folder ``tensorrt-engines``
    with ``trt_engine_cache_folder=1``, otherwise in the working directory.
Why it costs: building an engine takes seconds to minutes at every start.
Evidence: load time of a second session.
Fix and its safety: on; behaviour, since files appear in the program's working directory. An engine works for one GPU
    model, one TensorRT version and one range of shapes.
Example: ``--target tensorrt --objective cold-start --set trt_engine_cache=1 --set trt_engine_cache_folder=1``
References: ONNX Runtime documentation, "TensorRT Execution Provider", ``trt_engine_cache_enable``. Untested by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.tensorrt import PROVIDER as TENSORRT

KNOB = Knob(
    name="trt_engine_cache",
    channel="provider_option",
    provider=TENSORRT.name,
    key="trt_engine_cache_enable",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="behaviour",
    summary="engines cached on disk",
)
