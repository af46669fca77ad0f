"""A model is larger than a page can hold.

What it is: graph and weights of more than 2 GiB together, where the target is a browser.
Why it costs: WebAssembly has 4 GiB of memory in all, which the weights share with everything that a run makes, and
    packed copies of them; an ArrayBuffer, which the file is fetched into, ends near 2 GiB. Beyond that the session
    cannot be made.
Evidence: the sizes of the file and of its external data.
Fix and its safety: advice: weights of 4 or 8 bits, or float16 where the GPU has it; weights in several files of
    external data.
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
    """From the sizes of the files."""
    if facts.model is None or not facts.provider.in_page:
        return
    told = facts.model.facts
    size = told.size_bytes + told.external_bytes
    if size < _BUFFER:
        return
    too_large = size >= _MEMORY
    limit = "WebAssembly has 4 GiB of memory" if too_large else "near what a page can fetch and hold"
    yield Finding(
        code=CODE,
        severity="error" if too_large else "warning",
        what=f"{size / 2**30:.1f} GiB of model and weights: {limit}",
        fix="use weights of fewer bits",
    )
