"""Whether DirectML uses kernels from the GPU's vendor.

What it is: metacommands are kernels in the driver; without them DirectML's own shaders run.
Why it costs: driver kernels are usually faster, but some have computed wrong results.
Evidence: latency, and the output error relative to the CPU.
Fix and its safety: off only where outputs are wrong; numerics.
Example: ``--target directml --set dml_metacommands=0``
References: ONNX Runtime documentation, "DirectML Execution Provider"; ``disable_metacommands`` in onnxruntime-directml
    1.24.4. Untested by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.directml import PROVIDER as DIRECTML

KNOB = Knob(
    name="dml_metacommands",
    since="1.16",
    channel="provider_option",
    provider=DIRECTML.name,
    key="disable_metacommands",
    kind="choice",
    choices=("0", "1"),
    spelled=(("0", "true"), ("1", "false")),
    default="1",
    safety="numerics",
    summary="kernels from the GPU's driver",
)
