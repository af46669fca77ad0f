"""The smallest subgraph that TensorRT runs, in nodes.

What it is: smaller subgraphs stay with CUDA or the CPU.
Why it costs: each subgraph is an engine with boundaries that cost copies and synchronisation; a subgraph of two nodes
    is rarely faster.
Evidence: number of subgraphs, and latency.
Fix and its safety: a larger number where a model is split into many subgraphs; numerics.
Example: ``--target tensorrt --set trt_min_subgraph=5``
References: ONNX Runtime documentation, "TensorRT Execution Provider", ``trt_min_subgraph_size``. Untested by ortune.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.tensorrt import PROVIDER as TENSORRT

KNOB = Knob(
    name="trt_min_subgraph",
    channel="provider_option",
    provider=TENSORRT.name,
    key="trt_min_subgraph_size",
    kind="int",
    minimum=1,
    maximum=100000,
    default="1",
    safety="numerics",
    summary="smallest TensorRT subgraph, in nodes",
    tries=("5",),
    prior=SELDOM,
)
