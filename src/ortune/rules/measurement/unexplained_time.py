"""A part of the run is unexplained.

What it is: time of a run that lies in no node and in no gap that is usual at its place.
Why it costs: something else had the CPU, or the trace lost events; shares of such a run say less.
Evidence: the run, less the sum of its parts.
Fix and its safety: advice: a quiet machine; look at what else runs.
Example: ``ortune profile model.onnx`` on a machine that compiles meanwhile
References: ``ortune profile``, the category "unexplained".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._words import percent
from ortune.rules.facts import Facts

CODE = "MSR004"

_WORTH_SAYING = 0.02


def find(facts: Facts) -> Iterator[Finding]:
    """In a profiled run."""
    share = facts.share("unexplained")
    if abs(share) > _WORTH_SAYING:
        lost = facts.profile is not None and facts.profile.trace.lost_runs
        beyond = "the trace lost events" if lost else "something else had the CPU while no node ran"
        why = beyond if share > 0 else "the parts add up to more than the whole"
        yield Finding(
            code=CODE, what=f"{percent(share)} of the run is unexplained: {why}", share_ratio=abs(share)
        )
