"""Shape computations account for part of the run.

What it is: Shape, Gather, Concat and similar operators on a few integers, which only compute the sizes of tensors.
Why it costs: each costs the overhead of a node on every run, for a value that could be known beforehand.
Evidence: the time of these nodes in a profile.
Fix and its safety: behaviour: the rewrite ``fixed-dimensions``, where the sizes never change. The model then rejects
    all others. Advice where no dimension is dynamic: use a newer exporter.
Example: ``ortune compare model.onnx --b-rewrite fixed-dimensions:batch=1``
References: ONNX Runtime documentation, "Make dynamic input shape fixed".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rewrites.fixed_dimensions import REWRITE
from ortune.rules._category import part_of_run
from ortune.rules._fixes import fixed_by
from ortune.rules.facts import Facts
from ortune.trace.categories import SIZES

CODE = "SHP002"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if shape computation takes more than 5 % of the profiled run and a node reads a shape."""
    if facts.model is not None and facts.model.op_counts.keys().isdisjoint(SIZES):
        return
    for finding in part_of_run(facts, CODE, "shape-arithmetic", "spent computing shapes"):
        yield fixed_by(REWRITE, finding, facts)
