"""A part of the run is copies between devices.

What it is: nodes that ONNX Runtime inserts (Memcpy) where a value is made on one device and read on another.
Why it costs: a copy waits for all that was started before it, and its bytes go over the bus.
Evidence: the time of these nodes in a profile.
Fix and its safety: advice: keep the operators around them on one device, or bind inputs and outputs there.
Example: a NonMaxSuppression on the CPU in the middle of a graph on the GPU
References: ONNX Runtime documentation, "I/O Binding".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._category import part_of_run
from ortune.rules.facts import Facts

CODE = "PLC003"


def find(facts: Facts) -> Iterator[Finding]:
    """In a profiled run."""
    return part_of_run(facts, CODE, "device-copies", "copies between devices")
