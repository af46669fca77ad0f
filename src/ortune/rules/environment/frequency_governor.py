"""The CPU frequency governor is not "performance".

What it is: the kernel raises a core's frequency only after a period of load, and lowers it when the core is idle.
Why it costs: an inference after a pause starts at a low frequency, so latencies are longer and more variable.
Evidence: ``scaling_governor`` of the CPUs.
Fix and its safety: advice: set the performance governor while measuring, and in production where power allows.
Example: ``sudo cpupower frequency-set -g performance``
References: Linux kernel documentation, "CPU Performance Scaling".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "ENV002"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the frequency governor is known and is not "performance"."""
    governor = facts.topology.governor or facts.sensors.governor
    if governor not in ("", "performance"):
        yield Finding(
            code=CODE,
            what=f'the CPU frequency governor is "{governor}", so cores speed up late and latencies vary more',
            evidence=f"scaling_governor is {governor}",
            fix="while measuring, run: sudo cpupower frequency-set -g performance",
        )
