"""A setting has its effect only together with another one, which is not set.

What it is: a setting such as inter_op_spin_backoff_max without execution_mode=parallel, or trt_engine_cache_folder
    without trt_engine_cache=1. Number of inter-op threads: see THR003.
Why it costs: no cost and no benefit: ONNX Runtime accepts the setting and ignores it, or it works against the default.
Evidence: the settings.
Fix and its safety: advice: set the other one too, or remove this one.
Example: ``--set inter_op_spin_backoff_max=8``
References: ``ortune explain SETTING``.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue import knobs
from ortune.catalogue.named import INTER_OP_NUM_THREADS
from ortune.records import Finding, assignment
from ortune.rules.facts import Facts

CODE = "SES005"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for each setting without one that it needs."""
    for name, value in sorted(facts.plan.settings.items()):
        missing = [] if name == INTER_OP_NUM_THREADS.name else knobs.missing_for(facts.plan.settings, name)
        if missing:
            yield Finding(
                code=CODE,
                what=f"{assignment(name, value)} needs {', '.join(missing)}, which is not set",
                fix=f"set {' and '.join(missing)} too, or remove {name}",
            )
