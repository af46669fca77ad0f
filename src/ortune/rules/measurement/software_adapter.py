"""The GPU or NPU is computed by the CPU, so its times are nobody's.

What it is: in a page, WebGPU gave an adapter that says of itself that it is a fallback: a machine without a GPU, or a
    browser without a window or a driver. Elsewhere a plug-in for a GPU or an NPU took the CPU for its device.
Why it costs: a shader takes a hundred times what it takes on a GPU; which plan is faster there says nothing.
Evidence: the adapter's own words, or the device that ONNX Runtime lists.
Fix and its safety: advice: a machine with a GPU, and ``--headful`` where the browser needs a window to use it.
Example: SwiftShader in a headless Chromium; onnxruntime-qnn on x86-64
References: WebGPU specification, "GPUAdapterInfo", isFallbackAdapter.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.providers import short
from ortune.records import FUNCTIONAL_ONLY, Finding
from ortune.rules.facts import Facts

CODE = FUNCTIONAL_ONLY


def find(facts: Facts) -> Iterator[Finding]:
    """Where a page told of its adapter, or a plug-in took the CPU."""
    if facts.page is not None and facts.page.software:
        yield Finding(
            code=CODE,
            what=f"functional only: the browser's GPU is software ({facts.page.adapter}); its times are no GPU's",
            evidence=facts.page.adapter,
            fix="use --headful on a machine with a GPU",
        )
    if facts.emulated:
        yield Finding(
            code=CODE,
            what=f"functional only: the device of {short(facts.emulated)} is emulated on the CPU; its times are not "
            "a device's",
            evidence=facts.emulated,
            fix="measure on a machine with the device",
        )
