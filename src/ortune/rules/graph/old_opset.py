"""The model was written with an old operator set.

What it is: opset 12 and older. Operators have since gained forms that kernels and optimisations are made for.
Why it costs: newer fusions, quantizers and execution providers ask for newer operators; decompositions of old exporters
    stay in the graph.
Evidence: the opset that the file declares.
Fix and its safety: advice: export again with today's exporter; converting the file renames operators and gains little.
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
    """From the file alone."""
    opset = facts.model.facts.opsets.get("", 0) if facts.model else 0
    if 0 < opset < _OLD:
        yield Finding(
            code=CODE,
            severity="note",
            what=f"opset {opset} is old: exporters write 17 or later today",
            fix="export again if you can",
        )
