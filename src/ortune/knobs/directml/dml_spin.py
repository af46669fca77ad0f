"""Whether the CPU spins while it waits for the GPU.

What it is: at the end of a run the host waits for a fence, spinning or asleep.
Why it costs: waking up from sleep takes tens of microseconds; spinning takes a core.
Evidence: latency of short runs, and CPU time.
Fix and its safety: on where runs are short and a core is free; behaviour.
Example: ``--target directml --set dml_spin=1``
References: ONNX Runtime documentation, "DirectML Execution Provider"; ``ep.dml.enable_cpu_sync_spinning`` in
    onnxruntime-directml 1.24.4. Untested by ortune.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.directml import PROVIDER as DIRECTML

KNOB = Knob(
    name="dml_spin",
    since="1.18",
    channel="session_config",
    provider=DIRECTML.name,
    key="ep.dml.enable_cpu_sync_spinning",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="behaviour",
    summary="spinning while waiting for the GPU",
    under_load=True,
    tries=("1",),
    prior=SELDOM,
    priors={"cpu": 0.0},
)
