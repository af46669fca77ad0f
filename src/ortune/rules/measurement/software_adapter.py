"""The browser's GPU is computed by the CPU, so its times are nobody's.

What it is: WebGPU gave an adapter that says of itself that it is a fallback: a machine without a GPU, or a browser
    without a window or a driver.
Why it costs: a shader takes a hundred times what it takes on a GPU; which plan is faster there says nothing.
Evidence: the adapter's own words.
Fix and its safety: advice: a machine with a GPU, and ``--headful`` where the browser needs a window to use it.
Example: SwiftShader in a headless Chromium
References: WebGPU specification, "GPUAdapterInfo", isFallbackAdapter.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import FUNCTIONAL_ONLY, Finding
from ortune.rules.facts import Facts

CODE = FUNCTIONAL_ONLY


def find(facts: Facts) -> Iterator[Finding]:
    """Where a page told of its adapter."""
    if facts.page is not None and facts.page.software:
        yield Finding(
            code=CODE,
            what=f"functional only: the browser's GPU is software ({facts.page.adapter}); its times are no GPU's",
            evidence=facts.page.adapter,
            fix="use --headful on a machine with a GPU",
        )
