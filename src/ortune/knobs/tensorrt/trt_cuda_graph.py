"""Whether TensorRT's subgraph is captured as a CUDA graph.

What it is: the engine's launches are recorded once and replayed with one call.
Why it costs: launching short kernels one by one takes the host several microseconds per kernel.
Evidence: latency of models with many short kernels.
Fix and its safety: on where the whole model is one subgraph with fixed shapes; exact. Inputs and outputs must keep
    their addresses.
Example: ``--target tensorrt --set trt_cuda_graph=1 --set call=device_binding``
References: ONNX Runtime documentation, "TensorRT Execution Provider", ``trt_cuda_graph_enable``. Untested by ortune.
"""

from ortune.knobs.facts import CONTROL_FLOW
from ortune.knobs.knob import OFTEN, Knob
from ortune.providers.tensorrt import PROVIDER as TENSORRT

KNOB = Knob(
    name="trt_cuda_graph",
    since="1.15",
    channel="provider_option",
    provider=TENSORRT.name,
    key="trt_cuda_graph_enable",
    kind="choice",
    choices=("0", "1"),
    default="0",
    summary="TensorRT subgraph replayed as a CUDA graph",
    tries=("1",),
    prior=OFTEN,
    applies=lambda model: not model.has(*CONTROL_FLOW),  # the host decides in the midst of a run
    priors={"cold-start": 0.0, "memory": 0.0},
    needs=("call_style=device_binding",),
)
