"""How long QNN optimises its graph when the session is created.

What it is: the mode of graph finalization: 1 prepares fastest, 2 and 3 search longer for a faster graph.
Why it costs: a longer search takes seconds to minutes at every start, unless the compiled graph is kept as an
    EPContext model.
Evidence: load time, and latency on the device.
Fix and its safety: 3 where the compiled graph is kept, 1 where every start compiles it; exact.
Example: ``--target qnn --set qnn_graph_optimization=3``
References: ONNX Runtime documentation, "QNN Execution Provider", ``htp_graph_finalization_optimization_mode``.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.qnn import PROVIDER as QNN

KNOB = Knob(
    name="qnn_graph_optimization",
    since="1.18",
    channel="provider_option",
    provider=QNN.name,
    key="htp_graph_finalization_optimization_mode",
    kind="choice",
    choices=("0", "1", "2", "3"),
    default="0: QNN's choice",
    summary="depth of QNN's search",
    tries=("3", "1"),
    prior=SELDOM,
    priors={"cold-start": {"1": 0.4, "3": 0.0}},
)
