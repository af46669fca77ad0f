"""The file is near the size that a model in one file may have.

What it is: a single file of 1.8 GiB and more, weights included.
Why it costs: a protobuf message ends at 2 GiB. Optimised or converted copies grow past it and cannot be saved; and
    weights inside it are read and copied, where those beside it are mapped.
Evidence: the file's size.
Fix and its safety: advice: keep the weights in a file of their own.
Example: ``onnx.save(model, "model.onnx", save_as_external_data=True)``
References: microsoft/onnxruntime#13543, #19089.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "SES004"

_NEAR_BYTES = int(1.8 * 2**30)


def find(facts: Facts) -> Iterator[Finding]:
    """From the file's size."""
    if (
        facts.model is not None
        and facts.model.facts.format == "onnx"
        and facts.model.facts.size_bytes >= _NEAR_BYTES
    ):
        yield Finding(
            code=CODE,
            severity="note",
            what=f"one file of {facts.model.facts.size_bytes / 2**30:.2f} GiB, near the 2 GiB of a protobuf",
            fix="keep the weights in a file of their own",
        )
