"""Nodes are faster than this machine's measured peak allows.

What it is: nodes that took less time than their roofline bound at this machine's measured peak.
Why it costs: no cost; but their work is over-counted or the measured peak is too low, so these nodes are excluded from
    the headroom.
Evidence: fastest times below the roofline bound, by more than frequency variation explains.
Fix and its safety: advice: measure the peak again on an idle machine.
Example: ``ortune doctor``
References: ``ortune profile``, the column "x roofline".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.printable import first_of
from ortune.records import Finding
from ortune.rules._words import NAMED, called, place
from ortune.rules.facts import Facts
from ortune.trace.roofline import below_floor

CODE = "MSR005"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if nodes of the profiled run are faster than the measured peak allows."""
    below = below_floor(facts.nodes())
    if below:
        names = first_of([called(node) for node in below], NAMED)
        yield Finding(
            code=CODE,
            what=f"nodes faster than the measured peak allows are excluded from the headroom: {names}",
            where=place(below),
            fix="measure the peak again: ortune doctor",
        )
