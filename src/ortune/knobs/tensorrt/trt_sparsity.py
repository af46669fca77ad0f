"""Whether TensorRT uses sparse tensor cores.

What it is: weights with two zeros in every four values run at twice the rate.
Why it costs: without it, weights that were pruned this way gain nothing.
Evidence: latency of a model with 2:4 sparsity.
Fix and its safety: on for such models; numerics.
Example: ``--target tensorrt --set trt_sparsity=1``
References: ONNX Runtime documentation, "TensorRT Execution Provider", ``trt_sparsity_enable``. Untested by ortune.
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
