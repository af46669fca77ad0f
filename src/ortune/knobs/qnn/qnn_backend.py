"""Which of Qualcomm's processors runs the model.

What it is: the NPU (htp), the GPU or the reference implementation on the CPU, as libraries of QNN.
Why it costs: the NPU computes only integers and float16. The CPU library is a slow reference.
Evidence: latency. If the package lacks the library, the session has no QNN provider, and the trial fails.
Fix and its safety: ``htp`` for quantized and float16 models, ``gpu`` for the others; numerics, since each computes
    differently.
Example: ``--target qnn --set qnn_backend=htp``
References: ONNX Runtime documentation, "QNN Execution Provider", ``backend_type``.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.qnn import PROVIDER as QNN

KNOB = Knob(
    name="qnn_backend",
    since="1.22",
    channel="provider_option",
    provider=QNN.name,
    key="backend_type",
    kind="choice",
    choices=("htp", "gpu", "cpu"),
    default="htp",
    safety="numerics",
    summary="the processor that QNN uses",
    tries=("gpu",),
    prior=SELDOM,
)
