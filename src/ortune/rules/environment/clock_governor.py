"""The clock governor is not "performance".

What it is: the kernel raises the clock of a core when it has been busy for a while, and lowers it when it has not.
Why it costs: a call that comes after a pause begins at a low clock, so latencies are longer and spread more.
Evidence: ``scaling_governor`` of the system's CPUs.
Fix and its safety: advice: another governor while measuring, and in production where power allows.
Example: ``sudo cpupower frequency-set -g performance``
References: Linux kernel documentation, "CPU Performance Scaling".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "ENV002"


def find(facts: Facts) -> Iterator[Finding]:
    """Wherever the governor was read."""
    governor = facts.topology.governor or facts.sensors.governor
    if governor not in ("", "performance"):
        yield Finding(
            code=CODE,
            what=f'the clock governor is "{governor}": clocks rise late and latencies spread',
            evidence=f"scaling_governor reads {governor}",
            fix="while measuring: sudo cpupower frequency-set -g performance",
        )
