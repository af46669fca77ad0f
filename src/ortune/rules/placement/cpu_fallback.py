"""CPU nodes are placed between nodes on a device.

What it is: operators for which the execution provider has no kernel, or none for their type or opset. ONNX Runtime runs
    them on the CPU in the middle of the device graph.
Why it costs: their inputs are copied from the device and their outputs back, and each copy waits for all work queued
    before. A provider that compiles subgraphs gets several small ones instead of one.
Evidence: the provider that ran each node, and the nodes around it, in a profile.
Fix and its safety: advice: use another operator, type or opset for these nodes; move post-processing (NonZero,
    NonMaxSuppression) out of the graph; or run a whole small section on the CPU, which ``ortune tune`` tries.
Example: a NonMaxSuppression in the middle of a detector on CUDA
References: microsoft/onnxruntime#17434, #16886, #14326, #18032, #28022.
"""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ortune.catalogue.providers import ON_CPU, short_name
from ortune.printable import amount
from ortune.records import Finding, ProfiledNode
from ortune.rules._gpu_commands import GpuCommands
from ortune.rules._words import listed, place
from ortune.rules.facts import Facts

CODE = "PLC005"

_COPIES = "device-copies"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on nodes that the CPU runs between a device's nodes in a profiled run."""
    run = facts.profile
    nodes = facts.nodes()
    elsewhere = {node.provider for node in nodes} - ON_CPU
    if run is None or not elsewhere:
        return
    islands = _between(nodes)
    if islands:
        kinds = Counter(node.op_type for node in islands)
        copies = [node for node in nodes if node.category == _COPIES]
        share = sum(node.time_ns for node in (*islands, *copies)) / run.wall_ns
        names = ", ".join(sorted(short_name(name) for name in elsewhere))
        commands = GpuCommands.from_facts(facts, min(elsewhere))
        fix = (
            "use operators or types that the device supports, or run everything after these nodes on the CPU"
        )
        yield Finding(
            code=CODE,
            what=f"{amount(len(islands), 'node')} on the CPU between nodes on {names}: "
            f"{listed(f'{n} {op}' for op, n in kinds.most_common())}",
            where=place(islands),
            evidence=_copies_of(copies),
            share_ratio=share,
            fix=": ".join(filter(None, (fix, shlex.join(commands.sides())))),
        )


def _copies_of(copies: Sequence[ProfiledNode]) -> str:
    """Format the number of copies in a run, with their bytes if the profile has them."""
    if not copies:
        return ""
    count = round(sum(node.calls for node in copies))
    n_bytes = sum((node.output_bytes or 0) * node.calls for node in copies)
    unit, size = next(
        (unit, size)
        for unit, size in (("MB", 1e6), ("kB", 1e3), ("bytes", 1))
        if n_bytes >= size or size == 1
    )
    moved = f" ({n_bytes / size:.3g} {unit})" if n_bytes else ""
    return f"with {amount(count, 'copy', 'copies')} between devices{moved}"


def _between(nodes: Iterable[ProfiledNode]) -> list[ProfiledNode]:
    """Return the CPU nodes between device nodes, connected directly or through copies and other CPU nodes."""
    by_name = {node.name: node for node in nodes}
    sources = {
        name: [name_read for name_read in node.reads if name_read in by_name]
        for name, node in by_name.items()
    }
    users: defaultdict[str, list[str]] = defaultdict(list)
    for name, read in sources.items():
        for source in read:
            users[source].append(name)
    # Both downstream and upstream of a device: nodes that only prepare inputs or read outputs need copies in
    # one direction only.
    below, above = _reached(by_name, users), _reached(by_name, sources)
    return [
        node
        for name, node in by_name.items()
        if node.provider in ON_CPU and node.category != _COPIES and name in below and name in above
    ]


def _reached(nodes: Mapping[str, ProfiledNode], next_: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the names of nodes that can be reached from device nodes along ``next_`` through CPU nodes."""
    waiting = [name for name, node in nodes.items() if node.provider not in ON_CPU]
    reached: set[str] = set()
    while waiting:
        for name in next_.get(waiting.pop(), ()):
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return reached
