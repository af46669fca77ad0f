"""Whether a run is captured once as a CUDA graph and replayed.

What it is: the first runs record every kernel launch; later runs start the whole graph with one call.
Why it costs: launching a kernel costs the host several microseconds, which delays a model of many short kernels.
Evidence: latency; ``profile`` shows how long the GPU computes and how long launches take. Outputs are compared on
    inputs that changed after the capture.
Fix and its safety: capture where all shapes are fixed, all nodes run on the GPU and there is no control flow; exact.
    Inputs and outputs must keep their addresses, so it needs ``call=device_binding``, and one thread calls the
    session.
Example: ``--target cuda --set cuda_graph=1 --set call=device_binding``
References: ONNX Runtime documentation, "CUDA Execution Provider", ``enable_cuda_graph``.
"""

from ortune.knobs.facts import CONTROL_FLOW
from ortune.knobs.knob import OFTEN, Knob
from ortune.providers.cuda import PROVIDER as CUDA

KNOB = Knob(
    name="cuda_graph",
    since="1.13",
    channel="provider_option",
    provider=CUDA.name,
    key="enable_cuda_graph",
    kind="choice",
    choices=("0", "1"),
    default="0",
    summary="runs replayed as a CUDA graph",
    tries=("1",),
    prior=OFTEN,
    applies=lambda model: not model.has(*CONTROL_FLOW),  # the host decides in the midst of a run
    priors={"latency": 0.5, "cold-start": 0.0, "memory": 0.0},
    needs=("call_style=device_binding",),
)
