"""The model is close to the memory limit of a browser page, or above it.

What it is: a model and weights of 2 GiB or more in total, for a browser. At 4 GiB or more, this is an error.
Why it costs: WebAssembly is limited to 4 GiB of memory, which the weights share with their packed copies and all
    intermediate values. Each file is fetched into an ArrayBuffer of at most about 2 GiB. Above these limits, no session
    can be created.
Evidence: the sizes of the file and of its external data.
Fix and its safety: advice: use weights of 4 or 8 bits, or float16 where the GPU supports it; split the weights into
    several external data files.
Example: ``ortune tune model.onnx --rewrite weight-only-bits --allow numerics``
References: ONNX Runtime documentation, "Working with large models" of ONNX Runtime Web; microsoft/onnxruntime#13543.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "WEB008"

_BUFFER, _MEMORY = 2 << 30, 4 << 30


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the model's files are near or above the memory limits of a browser."""
    if facts.model is None or not facts.provider.in_page:
        return
    file = facts.model.facts
    size = file.size_bytes + file.external_bytes
    if size < _BUFFER:
        return
    too_large = size >= _MEMORY
    limit = (
        "WebAssembly is limited to 4 GiB of memory" if too_large else "close to the limit of a browser page"
    )
    yield Finding(
        code=CODE,
        severity="error" if too_large else "warning",
        what=f"the model and its weights take {size / 2**30:.1f} GiB: {limit}",
        fix="quantize the weights: ortune rewrite model.onnx weight-only-bits",
    )
