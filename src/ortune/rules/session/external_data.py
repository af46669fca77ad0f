"""Weights lie beside the model.

What it is: files that the model names, and that must go wherever it goes.
Why it costs: nothing in a run; a session that is made from bytes in memory does not find them, and a page makes all
    of its sessions so: there each file must be named (``externalData: [{ path, data }]``).
Evidence: the names of the files.
Fix and its safety: advice: none is needed, unless the model is below 2 GiB and is passed on as one file.
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
    """From the file alone."""
    if facts.model is not None and facts.model.facts.external_bytes:
        in_a_page = facts.provider.in_page
        files = sorted({tensor.file.path.name for tensor in facts.model.external})
        yield Finding(
            code=CODE,
            severity="warning" if in_a_page else "note",
            what=f"weights lie beside the model: {listed(files)}"
            + (", which a page does not find by itself" if in_a_page else ""),
            where=tuple(files),
            fix="give them as externalData when the session is made" if in_a_page else "",
        )
