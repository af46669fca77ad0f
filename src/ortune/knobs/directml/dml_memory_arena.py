"""Whether DirectML keeps the memory of tensors that are no longer used.

What it is: an arena of buffers on the GPU.
Why it costs: allocating from the driver costs time in every run; kept buffers take memory.
Evidence: latency, and the GPU's memory.
Fix and its safety: off where several programs share a small GPU; exact.
Example: ``--target directml --set dml_memory_arena=0``
References: ONNX Runtime documentation, "DirectML Execution Provider"; ``ep.dml.disable_memory_arena`` in
    onnxruntime-directml 1.24.4. Untested by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.directml import PROVIDER as DIRECTML

KNOB = Knob(
    name="dml_memory_arena",
    since="1.19",
    channel="session_config",
    provider=DIRECTML.name,
    key="ep.dml.disable_memory_arena",
    kind="choice",
    choices=("0", "1"),
    spelled=(("0", "1"), ("1", "0")),
    default="1",
    summary="arena on the GPU",
    tries=("0",),
    priors={"latency": 0.0, "memory": 0.2},
)
