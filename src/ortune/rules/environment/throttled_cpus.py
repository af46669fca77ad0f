"""A CPU quota or heat has held this process's CPUs back.

What it is: a control group that has used up its quota is stopped until the next period; a processor that is too hot
    lowers its clock.
Why it costs: a run that meets either takes many times as long, and none of it is the model's.
Evidence: periods in which the group was stopped; how often heat lowered the clock since the start.
Fix and its safety: advice: no more threads than the quota has CPUs, or a larger quota; better cooling.
Example: ``--set intra_op_num_threads=2`` in a container with two CPUs
References: Linux kernel documentation, "CFS Bandwidth Control".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "ENV009"

_WORTH_SAYING_RATIO = 0.01


def find(facts: Facts) -> Iterator[Finding]:
    """Where a group of this process was stopped, or heat was seen."""
    groups = [
        level
        for level in facts.sensors.throttling
        if level.nr_periods > 0 and level.nr_throttled / level.nr_periods >= _WORTH_SAYING_RATIO
    ]
    heat = facts.sensors.thermal_throttles or 0
    if not groups and not heat:
        return
    evidence = [
        f"{level.group}: stopped in {level.nr_throttled} of {level.nr_periods} periods, "
        f"{level.throttled_us / 1e6:.1f} s in all"
        for level in groups
    ]
    fixes = ["use no more threads than the quota has CPUs, or raise the quota"] if groups else []
    if heat:
        evidence.append(f"heat has lowered the clock {heat} times since start")
        fixes.append("better cooling, or a lower fixed clock while measuring")
    cause = " and ".join(name for name, there in (("its CPU quota", groups), ("heat", heat)) if there)
    yield Finding(
        code=CODE,
        what=f"this process's CPUs have been held back by {cause}",
        evidence="; ".join(evidence),
        fix="; ".join(fixes),
    )
