"""A large part of the run lies between nodes.

What it is: the executor, allocation of outputs, and the profiler's own writing, once a node.
Why it costs: a graph of many small nodes pays it many times, whatever the kernels do.
Evidence: time of the run in which no node ran.
Fix and its safety: advice: fewer nodes (fusions, fixed shapes, a newer exporter), or larger batches.
Example: ``ortune compare model.onnx --b-set graph_optimization_level=all``
References: ONNX Runtime documentation, "Graph optimizations".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._words import percent
from ortune.rules.facts import Facts

CODE = "GRA005"

_WORTH_SAYING = 0.15


def find(facts: Facts) -> Iterator[Finding]:
    """In a profiled run."""
    share = facts.share("between-nodes")
    if share <= _WORTH_SAYING or facts.profile is None:
        return
    # What lies between the nodes of a body is that control-flow node's own time.
    calls = sum(node.calls for node in facts.nodes() if not node.inside)
    each_us = share * facts.profile.wall_ns / max(calls, 1) / 1000
    yield Finding(
        code=CODE,
        what=f"{percent(share)} of the run lies between {calls:.0f} nodes ({each_us:.1f} us each, profiling included)",
        share_ratio=share,
        fix="fewer nodes, or larger batches, have less of it",
    )
