"""The device is idle between kernels.

What it is: gaps between the kernels on a device, in a trace without host events.
Why it costs: the device could compute but has no work.
Evidence: the gaps between the kernels of one run.
Fix and its safety: advice: use fewer and larger kernels, inputs that are already on the device, or graph capture.
Example: a page that uploads its inputs for each run
References: ONNX Runtime documentation, "Using WebGPU", section on performance.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._category import share_of_run
from ortune.rules.facts import Facts

CODE = "PLC001"

_WORTH_SAYING = 0.15


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the device is idle for a large part of a trace that has only kernels."""
    return share_of_run(
        facts,
        CODE,
        "device-idle",
        _WORTH_SAYING,
        "is device idle time between kernels, waiting for the host; the trace has no host events",
    )
