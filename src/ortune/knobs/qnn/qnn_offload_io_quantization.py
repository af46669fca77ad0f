"""Whether the CPU quantizes inputs and dequantizes outputs.

What it is: QuantizeLinear at the graph's inputs and DequantizeLinear at its outputs run on the CPU (1) or on the NPU
    (0).
Why it costs: on the NPU, full-size float tensors are copied for these two float nodes; on the CPU, they take CPU
    time.
Evidence: placement of the first and the last nodes, copies, latency.
Fix and its safety: the value that measures faster; exact.
Example: ``--target qnn --set qnn_offload_io_quantization=0``
References: ONNX Runtime documentation, "QNN Execution Provider", ``offload_graph_io_quantization``.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.qnn import PROVIDER as QNN

KNOB = Knob(
    name="qnn_offload_io_quantization",
    since="1.20",
    channel="provider_option",
    provider=QNN.name,
    key="offload_graph_io_quantization",
    kind="choice",
    choices=("0", "1"),
    default="provider's default",
    summary="QuantizeLinear at inputs and outputs on the CPU",
    tries=("0",),
    prior=SELDOM,
    applies=lambda model: model.qdq,
)
