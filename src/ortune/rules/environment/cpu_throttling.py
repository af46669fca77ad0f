"""A CPU quota throttled this container, or heat throttled the CPU.

What it is: a cgroup that has used up its CPU quota is stopped until the next period. A CPU that is too hot lowers its
    frequency.
Why it costs: a throttled run takes many times as long, for a reason outside the model.
Evidence: the periods in which the cgroup was throttled, and the number of thermal throttling events since boot.
Fix and its safety: advice: use no more threads than the quota has CPUs, or raise the quota; improve the cooling.
Example: ``--set intra_op_num_threads=2`` in a container with two CPUs
References: Linux kernel documentation, "CFS Bandwidth Control".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._words import plural
from ortune.rules.facts import Facts

CODE = "ENV009"

_WORTH_SAYING_RATIO = 0.01


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if a control group of this process was throttled by quota, or the CPU by heat."""
    groups = [
        level
        for level in facts.sensors.throttling
        if level.nr_periods > 0 and level.nr_throttled / level.nr_periods >= _WORTH_SAYING_RATIO
    ]
    heat = facts.sensors.thermal_throttles or 0
    if not groups and not heat:
        return
    evidence = [
        f"{level.group} was throttled in {level.nr_throttled} of {level.nr_periods} periods, "
        f"for {level.throttled_us / 1e6:.1f} s"
        for level in groups
    ]
    fixes = ["use no more threads than the quota has CPUs, or raise the quota"] if groups else []
    if heat:
        evidence.append(f"{heat} thermal throttling {plural(heat, 'event')} since boot")
        fixes.append("improve the cooling, or fix a lower CPU frequency while measuring")
    causes = (("the CPU quota throttled this process", groups), ("heat throttled the CPU", heat))
    yield Finding(
        code=CODE,
        what=", and ".join(text for text, there in causes if there),
        evidence="; ".join(evidence),
        fix="; ".join(fixes),
    )
