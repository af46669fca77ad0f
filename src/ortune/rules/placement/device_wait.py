"""Waiting for the device and transferring inputs and outputs account for part of the run.

What it is: time before and after the executor: uploading inputs, waiting for the device, and reading outputs back.
Why it costs: node times on the host do not include this time; its length depends on the work queued on the device.
Evidence: a profile with the start and end of the executor.
Fix and its safety: advice: profile the device; bind inputs and outputs to it.
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
    """Yield a finding if the profiled run waits for the device for a large part of its time."""
    return share_of_run(
        facts,
        CODE,
        "device-wait",
        _WORTH_SAYING,
        "is spent waiting for the device and transferring inputs and outputs, so node times on the host mean little",
    )
