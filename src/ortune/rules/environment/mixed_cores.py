"""The cores are of different speeds.

What it is: processors with fast and slow cores (performance and efficiency, big and little).
Why it costs: an operator's work is cut into equal parts, one a thread, and ends when the slowest core ends.
Evidence: the kinds of core, or their highest clocks, as the system tells them.
Fix and its safety: advice: a thread a fast core, pinned there; how many is worth measuring.
Example: ``--set intra_op_num_threads=8 --set intra_op_thread_affinities=...``
References: ONNX Runtime documentation, "Thread management", section on affinity.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "ENV007"


def find(facts: Facts) -> Iterator[Finding]:
    """Where the machine has slower cores."""
    if facts.topology.efficiency_cpus:
        yield Finding(
            code=CODE,
            what="the cores are of different speeds: one share of work each ends when the slowest core ends",
            where=(facts.host.cpu,) if facts.host else (),
            evidence=facts.topology.note,
            fix="try a thread a fast core (intra_op_num_threads) and pinning to the fast ones "
            "(session.intra_op_thread_affinities)",
        )
