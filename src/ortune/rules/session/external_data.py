"""Weights are stored as external data.

What it is: files that the model refers to and that must be distributed with it.
Why it costs: no cost per run. A session created from bytes in memory does not find these files. Web pages always create
    sessions this way, so each file must be passed (``externalData: [{ path, data }]``).
Evidence: the file names.
Fix and its safety: advice: none is needed, unless the model is below 2 GiB and should be a single file.
Example: ``onnx.save(onnx.load("model.onnx"), "one.onnx")``
References: ONNX documentation, "External Data".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._words import listed
from ortune.rules.facts import Facts

CODE = "SES001"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the model has external data."""
    if facts.model is not None and facts.model.facts.external_bytes:
        in_a_page = facts.provider.in_page
        files = sorted({tensor.file.path.name for tensor in facts.model.external})
        yield Finding(
            code=CODE,
            severity="warning" if in_a_page else "note",
            what=f"weights are stored as external data: {listed(files)}"
            + (", which a web page does not load by itself" if in_a_page else ""),
            where=tuple(files),
            fix="pass these files as externalData to InferenceSession.create" if in_a_page else "",
        )
