"""Where TensorRT keeps its engines: in the folder tensorrt-engines.

What it is: the folder is always the same, because a plan cannot contain an output path.
Why it costs: without it, engines are written directly into the program's working directory.
Evidence: files in the folder.
Fix and its safety: together with ``trt_engine_cache``; behaviour.
Example: ``--target tensorrt --set trt_engine_cache=1 --set trt_engine_cache_folder=1``
References: ONNX Runtime documentation, "TensorRT Execution Provider", ``trt_engine_cache_path``. Untested by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.tensorrt import PROVIDER as TENSORRT

KNOB = Knob(
    name="trt_engine_cache_folder",
    channel="provider_option",
    provider=TENSORRT.name,
    key="trt_engine_cache_path",
    kind="choice",
    choices=("1",),
    spelled=(("1", "tensorrt-engines"),),
    default="the working directory",
    probe="folder",
    safety="behaviour",
    summary="the folder of the engines",
    tries=("1",),
    priors={"cold-start": 0.8, "latency": 0.0, "memory": 0.0},
    needs=("trt_engine_cache=1",),
)
