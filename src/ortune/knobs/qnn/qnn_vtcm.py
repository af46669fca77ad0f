"""How much of the NPU's own memory the session reserves, in megabytes.

What it is: the NPU's vector memory (VTCM), shared by all models on the device.
Why it costs: with too little, tiles are smaller and main memory is read more often; with all of it, other models wait.
Evidence: latency alone and while another model runs.
Fix and its safety: a part of the VTCM where several models run at once; behaviour.
Example: ``--target qnn --set qnn_vtcm=4``
References: ONNX Runtime documentation, "QNN Execution Provider", ``vtcm_mb``.
"""

from ortune.knobs.knob import Knob
from ortune.providers.qnn import PROVIDER as QNN

KNOB = Knob(
    name="qnn_vtcm",
    since="1.18",
    channel="provider_option",
    provider=QNN.name,
    key="vtcm_mb",
    kind="int",
    minimum=1,
    maximum=64,
    default="QNN's choice",
    safety="behaviour",
    summary="memory of the NPU, in MB",
)
