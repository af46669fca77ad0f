"""Whether TensorRT uses sparse tensor cores.

What it is: weights with two zeros in every four run with twice the arithmetic.
Why it costs: weights that were pruned so gain nothing without it.
Evidence: latency of a model that was pruned two of four.
Fix and its safety: on for such models; numerics.
Example: ``--target tensorrt --set trt_sparsity=1``
References: ONNX Runtime documentation, "TensorRT Execution Provider", ``trt_sparsity_enable``. Not run on this system.
"""

from ortune.knobs.knob import Knob
from ortune.providers.tensorrt import PROVIDER as TENSORRT

KNOB = Knob(
    name="trt_sparsity",
    since="1.16",
    channel="provider_option",
    provider=TENSORRT.name,
    key="trt_sparsity_enable",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="numerics",
    summary="sparse tensor cores",
)
