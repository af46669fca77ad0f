"""A large part of the run is spent between nodes.

What it is: overhead per node: the executor, output allocation, and the profiler itself.
Why it costs: a graph of many small nodes pays this overhead for each of them, whatever the kernels do.
Evidence: the time in which no node was running.
Fix and its safety: advice: reduce the number of nodes (fusions, fixed shapes, a newer exporter), or use larger
    batches.
Example: ``ortune compare model.onnx --b-rewrite onnxslim``
References: ONNX Runtime documentation, "Graph optimizations".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._words import percent, plural
from ortune.rules.facts import Facts

CODE = "GRA005"

_WORTH_SAYING = 0.15
_FEW_NODES = 8.0
"""Number of nodes below which there is nothing to fuse, and only larger batches spread the overhead of a call."""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the profiled run spends a large fraction of its time between nodes."""
    share = facts.share("between-nodes")
    if share <= _WORTH_SAYING or facts.profile is None:
        return
    # Time between the nodes of a body is self time of the control-flow node.
    calls = sum(node.calls for node in facts.nodes() if not node.inside)
    each_us = share * facts.profile.wall_ns / max(calls, 1) / 1000
    few = calls < _FEW_NODES
    yield Finding(
        code=CODE,
        what=f"{percent(share)} of the run is overhead {'around' if few else 'between'} {calls:.0f} "
        f"{plural(round(calls), 'node')} ({each_us:.1f} us each, profiling included)",
        share_ratio=share,
        fix="use larger batches"
        if few
        else "reduce the number of nodes (fusions, fixed shapes), or use larger batches",
    )
