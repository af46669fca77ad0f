"""Whether DirectML compiles parts of the graph as one.

What it is: parts whose shapes are known are handed to DirectML as one graph, which it optimises.
Why it costs: without it, each node is a separate kernel; with it, loading takes longer.
Evidence: latency and load time.
Fix and its safety: on, as by default; off where load time matters more; exact.
Example: ``--target directml --set dml_graph_fusion=0``
References: ONNX Runtime documentation, "DirectML Execution Provider"; ``ep.dml.disable_graph_fusion`` in
    onnxruntime-directml 1.24.4. Untested by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.directml import PROVIDER as DIRECTML

KNOB = Knob(
    name="dml_graph_fusion",
    since="1.15",
    channel="session_config",
    provider=DIRECTML.name,
    key="ep.dml.disable_graph_fusion",
    kind="choice",
    choices=("0", "1"),
    spelled=(("0", "1"), ("1", "0")),
    default="1",
    summary="parts of the graph compiled as one",
    tries=("0",),
    priors={"latency": 0.02, "cold-start": 0.2},
)
