"""OMP_NUM_THREADS is set, but ONNX Runtime ignores it.

What it is: ONNX Runtime uses its own thread pool. Only builds with OpenMP (up to 1.7) and oneDNN read this
    variable.
Why it costs: a process that should share the machine gets one thread per core instead.
Evidence: OMP_NUM_THREADS is set, and neither intra_op_num_threads nor ORT_INTRA_OP_NUM_THREADS is.
Fix and its safety: exact: set the number of threads on the session.
Example: ``--set intra_op_num_threads=2``
References: ONNX Runtime documentation, "Thread management".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.named import INTRA_OP_NUM_THREADS as THREADS
from ortune.catalogue.named import ORT_INTRA_OP_NUM_THREADS as VARIABLE
from ortune.catalogue.versions import why_too_old
from ortune.records import Finding, Plan
from ortune.rules.facts import Facts

CODE = "ENV005"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if OMP_NUM_THREADS is set without effect."""
    value = facts.environment.get("OMP_NUM_THREADS")
    by_variable = facts.environment.get(VARIABLE.key) and not why_too_old(VARIABLE, facts.ort_version)
    if not value or by_variable or THREADS.name in facts.plan.settings or facts.provider.in_page:
        return
    cores = f", {facts.host.cores} here" if facts.host else ""
    yield Finding(
        code=CODE,
        what="OMP_NUM_THREADS is set, but ONNX Runtime ignores it because it has its own thread pool",
        where=("OMP_NUM_THREADS",),
        evidence=f"OMP_NUM_THREADS={value}; a default session uses one thread per core{cores}",
        fix="set intra_op_num_threads, or ORT_INTRA_OP_NUM_THREADS with ONNX Runtime 1.29 or newer",
        plan=Plan(settings={THREADS.name: int(value)}) if value.isdecimal() and int(value) > 0 else None,
        safety="exact",
    )
