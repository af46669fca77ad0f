"""The device waits for the host between kernels.

What it is: time between the kernels on a device, in a trace that holds nothing of the host.
Why it costs: the device could compute and has nothing to.
Evidence: gaps between the kernels of one run.
Fix and its safety: advice: fewer and larger kernels, inputs that lie on the device already, graph
    capture.
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
    """In a trace of kernels alone."""
    return share_of_run(
        facts,
        CODE,
        "device-idle",
        _WORTH_SAYING,
        "the device is idle between kernels: it waits for the host, of which the trace tells nothing",
    )
