"""Outputs in the browser differ from those of the native CPU.

What it is: outputs of a page that differ from ONNX Runtime's native CPU provider by more than rounding explains, for
    the same inputs.
Why it costs: a wrong answer is useless at any speed. Some kernels of onnxruntime-web silently ignore an input, repeat
    an output or read stale memory.
Evidence: the error of the outputs.
Fix and its safety: advice: use another build, provider or model file; ``ortune bisect`` finds the first node that
    differs.
Example: FusedConv with a residual input on WebGPU
References: onnxruntime-web 1.30; microsoft/onnxruntime#24475.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "WEB018"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the outputs in the browser differ from the outputs of the native CPU provider."""
    check = facts.native
    if check is not None and not check.ok:
        yield Finding(
            code=CODE,
            severity="error",
            what=f"outputs in the browser differ from those of the native CPU: {check.what}",
            evidence=f"relative L2 {check.relative_l2:.2g}",
            fix="do not ship this model; try another build or execution provider, or the unoptimised model",
        )
