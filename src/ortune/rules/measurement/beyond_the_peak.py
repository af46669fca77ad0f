"""Nodes are faster than what the machine's peak allows.

What it is: a node took less than the least time for its work, at the rates that this machine was measured to reach.
Why it costs: nothing; but its work is over-counted or the peak too low, so the headroom leaves such nodes out.
Evidence: times at their fast end against that least time, by more than clocks vary.
Fix and its safety: advice: measure the peak again, on a quiet machine.
Example: ``ortune doctor``
References: ``ortune profile``, the column "x roofline".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._words import NAMED, called, place
from ortune.rules.facts import Facts
from ortune.trace.roofline import below_floor

CODE = "MSR005"


def find(facts: Facts) -> Iterator[Finding]:
    """In a profiled run, where the machine's peak is known."""
    below = below_floor(facts.nodes())
    if below:
        names = ", ".join(called(node) for node in below[:NAMED])
        more = f" and {len(below) - NAMED} more" if len(below) > NAMED else ""
        yield Finding(
            code=CODE,
            what=f"faster than what the machine's peak allows: {names}{more}; their work is over-counted or the peak "
            "too low, so the headroom leaves them out",
            where=place(below),
            fix="ortune doctor measures it again",
        )
