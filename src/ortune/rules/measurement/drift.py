"""Runs become slower, or faster, while they are measured.

What it is: the last third of the steady runs lies apart from the first by more than chance.
Why it costs: clocks that fall as the machine warms, memory that fills, a neighbour that begins or ends. The mean of
    such runs is the time of none of them.
Evidence: a rank-sum test at one in a thousand, and a difference of more than 5 %.
Fix and its safety: advice: a longer warm-up, a quiet machine, or a look at clocks and heat.
Example: ``ortune doctor``
References: Wilcoxon, "Individual comparisons by ranking methods", 1945.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._words import percent
from ortune.rules.facts import Facts
from ortune.trace.steady import drifts

CODE = "MSR003"

_WORTH_SAYING = 0.05


def find(facts: Facts) -> Iterator[Finding]:
    """In a profiled run."""
    variance = facts.profile.variance if facts.profile else None
    drift = drifts(variance.runs_ns[variance.left_out_runs :]) if variance else 0.0
    if abs(drift) <= _WORTH_SAYING:
        return
    slower = "clocks fell, memory filled, or another program began"
    why = slower if drift > 0 else "they were not warmed up, or another program ended"
    yield Finding(
        code=CODE,
        what=f"the last third of the runs is {percent(abs(drift))} {'slower' if drift > 0 else 'faster'} than the "
        f"first: {why}; the mean run is neither",
    )
