"""The machine is swapping, or has swapped.

What it is: pages of memory lie on a disk because there was not enough memory for all.
Why it costs: weights that were paged out come back from the disk in the middle of a run, thousands of times slower.
Evidence: swap in use, beyond the few idle pages that machines with enough memory have there too.
Fix and its safety: advice: free memory; while measuring, turn swap off.
Example: ``sudo swapoff -a``
References: Linux kernel documentation, "/proc/meminfo".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "ENV003"

_MIB = 1 << 20
# A few idle pages stay swapped out on machines that have all the memory they need.
_WORTH_SAYING_BYTES = 64 * _MIB


def find(facts: Facts) -> Iterator[Finding]:
    """Where more than idle pages are swapped out."""
    used = facts.sensors.swap_bytes or 0
    if used >= _WORTH_SAYING_BYTES:
        yield Finding(
            code=CODE,
            what="the machine is swapping or has swapped: weights that were paged out come back during a run",
            evidence=f"{used / _MIB:.0f} MiB of swap in use",
            fix="free memory, then: sudo swapoff -a while measuring",
        )
