"""The browser answers otherwise than the CPU outside of it, and says nothing.

What it is: outputs of a page for the same inputs are further from those of ONNX Runtime's CPU provider than rounding
    explains.
Why it costs: a wrong answer, fast or slow, is wrong; onnxruntime-web has kernels that leave out an input, freeze an
    output or run nodes on stale memory without an error.
Evidence: the error of the outputs.
Fix and its safety: advice: another build, provider or model file; ``ortune bisect`` finds the first node that differs.
Example: FusedConv with a residual input on WebGPU
References: onnxruntime-web 1.30; microsoft/onnxruntime#24475.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "WEB018"


def find(facts: Facts) -> Iterator[Finding]:
    """Where both were run."""
    found = facts.native
    if found is not None and not found.ok:
        yield Finding(
            code=CODE,
            severity="error",
            what=f"outputs in the browser are not those of the CPU outside of it: {found.what}",
            evidence=f"relative L2 {found.relative_l2:.2g}",
            fix="do not ship this: try another build or provider, or the model as it was before it was optimised",
        )
