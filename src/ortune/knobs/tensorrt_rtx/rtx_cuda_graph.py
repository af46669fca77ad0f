"""Whether runs are captured as a CUDA graph.

What it is: launches are recorded once and replayed with one call.
Why it costs: launching short kernels one by one takes the host several microseconds per kernel.
Evidence: latency of models with many short kernels.
Fix and its safety: on where the whole model is one subgraph with fixed shapes and no control flow; exact. Inputs and
    outputs must keep their addresses, and one thread calls the session.
Example: ``--target tensorrt-rtx --set rtx_cuda_graph=1 --set call=device_binding``
References: onnxruntime-ep-nv-tensorrt-rtx 0.5.0, ``enable_cuda_graph``. Untested by ortune.
"""

from ortune.knobs.facts import CONTROL_FLOW
from ortune.knobs.knob import OFTEN, Knob
from ortune.providers.tensorrt_rtx import PROVIDER as TENSORRT_RTX

KNOB = Knob(
    name="rtx_cuda_graph",
    channel="provider_option",
    provider=TENSORRT_RTX.name,
    key="enable_cuda_graph",
    kind="choice",
    choices=("0", "1"),
    default="0",
    summary="runs replayed as a CUDA graph",
    tries=("1",),
    prior=OFTEN,
    applies=lambda model: not model.has(*CONTROL_FLOW),
    priors={"cold-start": 0.0, "memory": 0.0},
    needs=("call_style=device_binding",),
)
