"""The model computes in float64.

What it is: inputs, weights or casts in float64, which is seldom intended: NumPy's default type, carried over into the
    export.
Why it costs: twice the bytes of float32 and half the values per vector; many operators have no fast float64 kernel.
Evidence: the types, by name.
Fix and its safety: advice: export in float32; outputs then differ within float32 precision.
Example: ``array.astype(numpy.float32)`` before the export
References: ONNX Runtime documentation, "Operators and kernels", the types of each.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.attributes import cast_to
from ortune.model.graphs import nodes, parameters
from ortune.records import Finding
from ortune.rules._words import name_of, plural
from ortune.rules.facts import Facts

CODE = "PRC002"


def find(facts: Facts) -> Iterator[Finding]:
    """Everywhere in the model."""
    if facts.model is None:
        return
    model = facts.model.ir
    inputs = [v.name or "" for v in model.graph.inputs if v.dtype == ir.DataType.DOUBLE]
    tensors = [t.name or "" for t in parameters(model) if t.dtype == ir.DataType.DOUBLE and t.size > 1]
    casts = [name_of(n) for n in nodes(model) if cast_to(n) == ir.DataType.DOUBLE]
    groups = ((inputs, "input"), (tensors, "weight"), (casts, "Cast"))
    parts = [f"{len(group)} {plural(len(group), word)}" for group, word in groups if group]
    if parts:
        yield Finding(
            code=CODE,
            what=f"the model computes in float64 ({', '.join(parts)}), which has twice the bytes of float32",
            where=(*inputs, *tensors, *casts),
        )
