"""The machine is swapping, or has swapped.

What it is: memory pages were moved to disk because RAM was short.
Why it costs: weights that were swapped out are read back from disk in the middle of a run, thousands of times slower.
Evidence: swap in use, beyond the few idle pages that are swapped out on any machine.
Fix and its safety: advice: free memory, and turn swap off while measuring.
Example: ``sudo swapoff -a``
References: Linux kernel documentation, "/proc/meminfo".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "ENV003"

_MIB = 1 << 20
# A few idle pages are swapped out even with enough memory.
_WORTH_SAYING_BYTES = 64 * _MIB


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if more than 64 MiB of memory are swapped out, which cannot be idle pages alone."""
    used = facts.sensors.swap_bytes or 0
    if used >= _WORTH_SAYING_BYTES:
        yield Finding(
            code=CODE,
            what="the machine has swapped, so weights may be read back from disk during a run",
            evidence=f"{used / _MIB:.0f} MiB of swap in use",
            fix="free memory, then turn swap off while measuring: sudo swapoff -a",
        )
