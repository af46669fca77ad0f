"""Whether a run is captured once and replayed.

What it is: the command list of the first run is kept, and later runs submit it again.
Why it costs: recording the commands of many short kernels costs the host time in every run.
Evidence: latency of models with many short kernels.
Fix and its safety: on where all shapes are fixed, all nodes run on the GPU and there is no control flow; behaviour,
    since inputs and outputs must keep their buffers on the GPU. With plain inputs, a replay reads old values.
Example: ``--target directml --set dml_graph_capture=1 --set call=device_binding``
References: ONNX Runtime documentation, "DirectML Execution Provider"; ``ep.dml.enable_graph_capture`` in
    onnxruntime-directml 1.24.4. Untested by ortune.
"""

from ortune.knobs.facts import CONTROL_FLOW
from ortune.knobs.knob import Knob
from ortune.providers.directml import PROVIDER as DIRECTML

KNOB = Knob(
    name="dml_graph_capture",
    since="1.18",
    channel="session_config",
    provider=DIRECTML.name,
    key="ep.dml.enable_graph_capture",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="behaviour",
    summary="runs replayed from captured commands",
    applies=lambda model: not model.has(*CONTROL_FLOW),
    needs=("call_style=device_binding",),
)
