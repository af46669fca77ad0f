"""The machine has several NUMA nodes.

What it is: each socket or die has its own memory, and access to another node's memory is slower (NUMA).
Why it costs: when the threads of one session span two nodes, half of them read the weights from remote memory.
Evidence: the NUMA nodes that the system lists, with their CPUs.
Fix and its safety: advice: run one session per node, with its memory and threads bound to that node.
Example: ``numactl --cpunodebind=0 --membind=0 python serve.py``
References: ONNX Runtime documentation, "Thread management", section on NUMA.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "ENV008"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if there are two or more NUMA nodes."""
    nodes = facts.topology.numa_nodes
    if len(nodes) > 1:
        yield Finding(
            code=CODE,
            what=f"the machine has {len(nodes)} NUMA nodes; a session whose threads span two of them reads remote "
            f"memory",
            evidence=f"nodes with {', '.join(str(len(node)) for node in nodes)} CPUs",
            fix="run one session per node, with as many threads as the node has cores: numactl --cpunodebind=0 "
            "--membind=0",
        )
