"""A pool of threads spins beside a device that does the work.

What it is: a session for CUDA or TensorRT with ONNX Runtime's usual number of threads.
Why it costs: nearly all nodes run on the GPU, and the pool's threads spin between the few that do not: CPUs are busy
    for nothing, and other work of the process waits for them.
Evidence: the target and the settings.
Fix and its safety: exact: one thread, so that there is no pool.
Example: ``--set intra_op_num_threads=1``
References: microsoft/onnxruntime#26847, #20494.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.knobs.cpu.allow_spinning import KNOB as SPINNING
from ortune.knobs.cpu.intra_op_num_threads import KNOB as THREADS
from ortune.records import Finding, Plan
from ortune.rules.facts import Facts

CODE = "THR005"
TIER = "preview"


def find(facts: Facts) -> Iterator[Finding]:
    """In the settings, where a GPU runs the model."""
    settings = facts.plan.settings
    said = settings.get(THREADS.name) is not None or settings.get(SPINNING.name) is not None
    if facts.model is not None and facts.provider.hardware == "gpu" and facts.provider.vendor and not said:
        yield Finding(
            code=CODE,
            severity="note",
            what="threads spin on the CPU beside the GPU that does the work",
            plan=Plan(settings={THREADS.name: 1}),
            safety="exact",
        )
