"""The CPU mixes fast and slow cores.

What it is: processors with performance and efficiency cores (big and little).
Why it costs: an operator's work is split into equal parts, one per thread, and ends only when the slowest core is
    done.
Evidence: the core types, or their maximum frequencies, as the system reports them.
Fix and its safety: advice: use one thread per fast core, pinned there; measure how many are best.
Example: ``--set intra_op_num_threads=8 --set intra_op_thread_affinities=...``
References: ONNX Runtime documentation, "Thread management", section on affinity.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "ENV007"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the machine has slower cores."""
    if facts.topology.efficiency_cpus:
        yield Finding(
            code=CODE,
            what="the CPU has fast and slow cores, and equal shares of work finish only when the slowest core does",
            where=(facts.host.cpu,) if facts.host else (),
            evidence=facts.topology.note,
            fix="set intra_op_num_threads to the number of fast cores, and pin the threads to these cores "
            "(session.intra_op_thread_affinities)",
        )
