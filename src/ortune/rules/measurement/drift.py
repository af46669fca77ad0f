"""Performance drifted during the measurement.

What it is: the last third of the steady runs differs from the first third by more than chance.
Why it costs: the mean of such runs represents none of them. Possible causes: the CPU warmed up and lowered its
    frequency, memory filled up, or another program started or ended.
Evidence: a rank-sum test at a level of 0.001, and a difference of more than 5 %.
Fix and its safety: advice: use a longer warm-up or an idle machine, or check CPU frequency and temperature.
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
    """Yield a finding if latency drifts within the profiled run."""
    variance = facts.profile.variance if facts.profile else None
    drift = drifts(variance.runs_ns[variance.left_out_runs :]) if variance else 0.0
    if abs(drift) <= _WORTH_SAYING:
        return
    slower = "the CPU frequency fell, memory filled, or another program started"
    why = slower if drift > 0 else "warm-up was too short, or another program ended"
    yield Finding(
        code=CODE,
        what=f"the last third of the runs is {percent(abs(drift))} {'slower' if drift > 0 else 'faster'} than the "
        f"first ({why})",
    )
