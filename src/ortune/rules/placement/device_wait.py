"""A part of the run waits for a device, or moves values there and back.

What it is: before and after the executor: inputs on their way to the device, waiting until it is done, outputs on their
    way back.
Why it costs: the host's own nodes say nothing of it; what runs on the device decides.
Evidence: a profile that says when the executor ran.
Fix and its safety: advice: profile the device; bind inputs and outputs there.
Example: ``ortune profile model.onnx --target cuda``
References: ONNX Runtime documentation, "I/O Binding".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._category import share_of_run
from ortune.rules.facts import Facts

CODE = "PLC002"

_WORTH_SAYING = 0.1


def find(facts: Facts) -> Iterator[Finding]:
    """In a profiled run."""
    return share_of_run(
        facts,
        CODE,
        "device-wait",
        _WORTH_SAYING,
        "waits for the device and moves inputs and outputs there and back: what runs there decides, and not the nodes' "
        "time on the host",
    )
