"""CPU threads spin while the GPU does the work.

What it is: a session for an NVIDIA or AMD GPU (CUDA, TensorRT, MIGraphX) with ONNX Runtime's default number of threads
    and default spinning.
Why it costs: nearly all nodes run on the GPU, and the thread pool spins between the few that do not. CPUs are busy
    without a result, and other work of the process has to wait.
Evidence: the target and the settings.
Fix and its safety: exact: one thread, which means no thread pool.
Example: ``--set intra_op_num_threads=1``
References: microsoft/onnxruntime#26847, #20494.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.named import ALLOW_SPINNING as SPINNING
from ortune.catalogue.named import INTRA_OP_NUM_THREADS as THREADS
from ortune.records import Finding, Plan
from ortune.rules.facts import Facts

CODE = "THR005"
TIER = "preview"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if a GPU runs the model and neither threads nor spinning are set."""
    settings = facts.plan.settings
    said = settings.get(THREADS.name) is not None or settings.get(SPINNING.name) is not None
    if facts.model is not None and facts.provider.hardware == "gpu" and facts.provider.vendor and not said:
        yield Finding(
            code=CODE,
            severity="note",
            what="CPU threads spin while the GPU does the work",
            plan=Plan(settings={THREADS.name: 1}),
            safety="exact",
        )
