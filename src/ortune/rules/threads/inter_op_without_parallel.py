"""Inter-op threads are set, but execution is sequential.

What it is: inter_op_num_threads above 1 with the sequential execution mode, which is the default.
Why it costs: no cost and no benefit: ONNX Runtime silently starts none of these threads.
Evidence: the two settings.
Fix and its safety: advice: remove the setting; or use execution_mode=parallel, which helps only where large operators
    are independent.
Example: ``--set execution_mode=parallel --set inter_op_num_threads=4``
References: microsoft/onnxruntime#10330, #12819.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.named import EXECUTION_MODE as MODE
from ortune.catalogue.named import INTER_OP_NUM_THREADS as THREADS
from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "THR003"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if inter-op threads are set without parallel execution."""
    threads = facts.plan.settings.get(THREADS.name)
    if isinstance(threads, int) and threads > 1 and facts.plan.settings.get(MODE.name) != "parallel":
        yield Finding(
            code=CODE,
            what=f"{THREADS.name}={threads} has no effect, because operators run sequentially",
            fix=f"remove the setting, or set {MODE.name}=parallel",
        )
