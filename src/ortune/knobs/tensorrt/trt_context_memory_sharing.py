"""Whether engines of one session share their scratch memory.

What it is: engines that never run at the same time share one block.
Why it costs: otherwise, a model that is split into many subgraphs holds scratch memory for each of them.
Evidence: the GPU's memory.
Fix and its safety: on where a model is split into several subgraphs; exact.
Example: ``--target tensorrt --set trt_context_memory_sharing=1``
References: ONNX Runtime documentation, "TensorRT Execution Provider", ``trt_context_memory_sharing_enable``. Untested
    by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.tensorrt import PROVIDER as TENSORRT

KNOB = Knob(
    name="trt_context_memory_sharing",
    channel="provider_option",
    provider=TENSORRT.name,
    key="trt_context_memory_sharing_enable",
    kind="choice",
    choices=("0", "1"),
    default="0",
    summary="scratch memory shared between engines",
    tries=("1",),
    priors={"latency": 0.0, "memory": 0.3},
)
