"""The file is close to the 2 GiB limit of a single-file model.

What it is: a single file of 1.8 GiB or more, weights included.
Why it costs: a protobuf message is limited to 2 GiB. Optimised or converted copies can exceed this limit and then
    cannot be saved. Weights inside the file are read and copied, while external data is memory-mapped.
Evidence: the file size.
Fix and its safety: advice: store the weights as external data.
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
    """Yield a finding if the file is close to the protobuf limit."""
    if (
        facts.model is not None
        and facts.model.facts.format == "onnx"
        and facts.model.facts.size_bytes >= _NEAR_BYTES
    ):
        yield Finding(
            code=CODE,
            severity="note",
            what=f"the file is {facts.model.facts.size_bytes / 2**30:.2f} GiB, close to the protobuf limit of 2 GiB",
            fix="store the weights as external data: onnx.save(model, path, save_as_external_data=True)",
        )
