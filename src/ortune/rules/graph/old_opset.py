"""The model uses an old opset.

What it is: opset 12 or older. Newer opsets have operators that kernels and optimisations are written for.
Why it costs: newer fusions, quantizers and execution providers require newer operators, and the decompositions of old
    exporters stay in the graph.
Evidence: the opset that the file declares.
Fix and its safety: advice: export again with a current exporter. Converting the file only renames operators and gains
    little.
Example: ``torch.onnx.export(..., opset_version=17)``
References: ONNX Runtime documentation, "Compatibility".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "GRA004"

_OLD = 13


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the model's opset is old."""
    opset = facts.model.facts.opsets.get("", 0) if facts.model else 0
    if 0 < opset < _OLD:
        yield Finding(
            code=CODE,
            severity="note",
            what=f"opset {opset} is old; current exporters write 17 or later",
            fix="export the model again with a current exporter",
        )
