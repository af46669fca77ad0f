"""The machine has several memory nodes.

What it is: memory belongs to one of several sockets or dies, and is slower from the others (NUMA).
Why it costs: threads of one session on two nodes read weights from the other node's memory.
Evidence: the nodes that the system lists, with their CPUs.
Fix and its safety: advice: one session a node, with memory and threads bound to it.
Example: ``numactl --cpunodebind=0 --membind=0 python serve.py``
References: ONNX Runtime documentation, "Thread management", section on NUMA.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "ENV008"


def find(facts: Facts) -> Iterator[Finding]:
    """Where there are two or more."""
    nodes = facts.topology.numa_nodes
    if len(nodes) > 1:
        yield Finding(
            code=CODE,
            what="the machine has several memory nodes: threads of one session on two of them read remote memory",
            evidence=f"{len(nodes)} nodes of {', '.join(str(len(node)) for node in nodes)} CPUs",
            fix="one session a node: numactl --cpunodebind=0 --membind=0, and threads to match",
        )
