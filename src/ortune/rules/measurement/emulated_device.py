"""The GPU or NPU is emulated on the CPU, so its times are meaningless.

What it is: in a page, WebGPU returned a fallback adapter, because the machine has no GPU, or the browser has no window
    or no driver. Outside a browser, a plug-in for a GPU or NPU used the CPU as its device.
Why it costs: a shader takes about a hundred times as long as on a GPU, so comparisons do not apply to real devices.
Evidence: the adapter's own information, or the device that ONNX Runtime lists.
Fix and its safety: advice: use a machine with a GPU, and ``--headful`` where the browser needs a window to use it.
Example: SwiftShader in a headless Chromium; onnxruntime-qnn on x86-64
References: WebGPU specification, "GPUAdapterInfo", isFallbackAdapter.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.providers import short_name
from ortune.records import FUNCTIONAL_ONLY, Finding
from ortune.rules.facts import Facts

CODE = FUNCTIONAL_ONLY


def find(facts: Facts) -> Iterator[Finding]:
    """Yield findings if the browser, or the CPU for a plug-in provider, emulates the device."""
    if facts.page is not None and facts.page.software:
        yield Finding(
            code=CODE,
            what=f"functional only: the browser emulates its GPU in software ({facts.page.adapter}), so times mean "
            f"nothing",
            evidence=facts.page.adapter,
            fix="use --headful on a machine with a GPU",
        )
    if facts.emulated:
        yield Finding(
            code=CODE,
            what=f"functional only: the CPU emulates the device of {short_name(facts.emulated)}, so times mean nothing",
            evidence=facts.emulated,
            fix="measure on a machine with this device",
        )
