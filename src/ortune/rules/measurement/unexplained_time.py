"""Part of the run is unexplained.

What it is: time in a run that belongs to no node and to no known kind of overhead.
Why it costs: another program used the CPU, or the trace lost events; shares of such a run are less reliable.
Evidence: the run, minus the sum of its parts.
Fix and its safety: advice: use an idle machine, and check what else is running.
Example: ``ortune profile model.onnx`` while a compiler is running
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
    """Yield a finding if the profiled run has much unexplained time."""
    share = facts.share("unexplained")
    if abs(share) > _WORTH_SAYING:
        lost = facts.profile is not None and facts.profile.trace.lost_runs
        beyond = (
            "the trace lost events" if lost else "another program may have used the CPU while no node ran"
        )
        why = beyond if share > 0 else "the parts sum to more than the whole"
        yield Finding(
            code=CODE, what=f"{percent(share)} of the run is unexplained: {why}", share_ratio=abs(share)
        )
