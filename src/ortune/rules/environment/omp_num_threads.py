"""OMP_NUM_THREADS is set, which ONNX Runtime does not read.

What it is: ONNX Runtime has a thread pool of its own; builds with OpenMP are long gone, and so is what that variable
    did to them.
Why it costs: whoever set it to share the machine gets a thread for every core instead.
Evidence: the variable is set, and ONNX Runtime's own is not.
Fix and its safety: exact: the number of threads as a setting.
Example: ``--set intra_op_num_threads=2``
References: ONNX Runtime documentation, "Thread management".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.knobs.cpu.intra_op_num_threads import KNOB as THREADS
from ortune.knobs.cpu.ort_intra_op_num_threads import KNOB as VARIABLE
from ortune.knobs.versions import too_old
from ortune.records import Finding, Plan
from ortune.rules.facts import Facts

CODE = "ENV005"


def find(facts: Facts) -> Iterator[Finding]:
    """Where the variable is set in vain."""
    value = facts.environment.get("OMP_NUM_THREADS")
    by_variable = facts.environment.get(VARIABLE.key) and not too_old(VARIABLE, facts.ort_version)
    if not value or by_variable or THREADS.name in facts.plan.settings or facts.provider.in_page:
        return
    cores = f", {facts.host.cores} here" if facts.host else ""
    yield Finding(
        code=CODE,
        what="OMP_NUM_THREADS is set, and ONNX Runtime does not read it: it has its own thread pool",
        where=("OMP_NUM_THREADS",),
        evidence=f"OMP_NUM_THREADS={value}; a default session takes one thread a core{cores}",
        fix="set intra_op_num_threads, or ORT_INTRA_OP_NUM_THREADS from ONNX Runtime 1.29 on",
        plan=Plan(settings={THREADS.name: int(value)}) if value.isdecimal() and int(value) > 0 else None,
        safety="exact",
    )
