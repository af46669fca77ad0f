"""Copies between devices account for part of the run.

What it is: Memcpy nodes, which ONNX Runtime inserts where a value is produced on one device and read on another.
Why it costs: a copy waits for all work queued before it, and its bytes cross the bus.
Evidence: the time of these nodes in a profile.
Fix and its safety: advice: keep the operators around them on one device, or bind inputs and outputs to it.
Example: a NonMaxSuppression on the CPU in the middle of a GPU graph
References: ONNX Runtime documentation, "I/O Binding".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._category import part_of_run
from ortune.rules.facts import Facts

CODE = "PLC003"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if copies between devices take more than 5 % of the profiled run."""
    return part_of_run(facts, CODE, "device-copies", "spent in copies between devices")
