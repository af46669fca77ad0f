"""Whether WebGPU records the kernels of the first run and replays them.

What it is: the commands of the first run are kept, and each further run submits all of them at once.
Why it costs: otherwise the host prepares and submits each kernel in every run; in a model of many small kernels, this
    takes most of the time.
Evidence: latency of models with many small kernels. Session creation fails where a node stays on the CPU.
Fix and its safety: on for models with fixed sizes whose nodes all run on the GPU; behaviour, since inputs and outputs
    must stay in buffers on the GPU with the same addresses, and one thread calls the session.
Example: ``--target webgpu --set webgpu_graph_capture=1 --set call=device_binding``
References: onnxruntime-ep-webgpu, ``enableGraphCapture``. microsoft/onnxruntime#29273
"""

from ortune.knobs.facts import CONTROL_FLOW
from ortune.knobs.knob import Knob
from ortune.providers.webgpu import PROVIDER as WEBGPU

KNOB = Knob(
    name="webgpu_graph_capture",
    since="1.24.4",
    channel="provider_option",
    provider=WEBGPU.name,
    key="enableGraphCapture",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="behaviour",
    summary="kernels are recorded once and replayed",
    applies=lambda model: not model.has(*CONTROL_FLOW),
    needs=("call_style=device_binding",),
)
