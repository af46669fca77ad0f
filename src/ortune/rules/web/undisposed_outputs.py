"""Outputs on the GPU are not disposed of.

What it is: tensors that ``run()`` returns on the GPU (``preferredOutputLocation``), on which the page calls neither
    ``dispose()`` nor ``getData(true)``.
Why it costs: onnxruntime-web keeps their buffers until then, also if no variable refers to the tensor. GPU memory grows
    with each run, until the device is lost.
Evidence: the number of tensors that ``run()`` returned in the observed page, and of those that were disposed of.
Fix and its safety: advice: call ``dispose()`` on each of these tensors after its last use.
Example: ``ortune diagnose --page http://localhost:5173 --watch 60s``
References: ONNX Runtime documentation, "Using the WebGPU Execution Provider", section "Tensor life cycle management".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._words import listed
from ortune.rules.facts import Facts

CODE = "WEB021"

LEAST_MADE = 8
"""Minimum number of tensors created for an output before the output is judged."""
KEPT_SHARE = 0.5
"""Fraction of undisposed tensors above which an output is reported."""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on outputs of an observed page that stay on the GPU."""
    kept = [
        output
        for output in facts.on_gpu
        if output.made >= LEAST_MADE and output.made - output.disposed > KEPT_SHARE * output.made
    ]
    if kept:
        each = listed(f"{output.name} ({output.made - output.disposed} of {output.made})" for output in kept)
        yield Finding(
            code=CODE,
            what=f"tensors on the GPU are not disposed of: {each}",
            where=tuple(output.name for output in kept),
            evidence=f"{sum((o.made - o.disposed) * o.size_bytes for o in kept) / 2**20:.3g} MiB are kept after "
            f"{max(output.made for output in kept)} runs",
            fix="call dispose() on each of these tensors after its last use, or getData(true) to read it",
        )
