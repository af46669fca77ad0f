"""The model computes in float64.

What it is: inputs, weights or casts in float64, which is seldom intended: NumPy's default type, carried over into the
    export.
Why it costs: twice the bytes of float32 and half the values per vector; many operators have no fast float64 kernel.
Evidence: the types, by name.
Fix and its safety: numerics: the rewrite ``float64-to-float32`` converts everything between inputs and outputs; outputs
    then differ within float32 precision. Inputs and outputs keep their type; to change it, export the model in float32.
Example: ``--rewrite float64-to-float32``
References: ONNX Runtime documentation, "Operators and kernels", the types of each.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.attributes import cast_to
from ortune.graph.model.graphs import nodes, parameters
from ortune.graph.nodes import is_op
from ortune.printable import amount
from ortune.records import Finding
from ortune.rewrites.float64_to_float32 import REWRITE
from ortune.rules._fixes import fixed_by
from ortune.rules._words import name_of
from ortune.rules.facts import Facts

CODE = "PRC002"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on float64 inputs, weights and casts."""
    if facts.model is None or facts.rewritten_by(REWRITE.name):
        return
    model = facts.model.ir
    inputs = [v for v in model.graph.inputs if v.dtype == ir.DataType.DOUBLE]
    tensors = [t.name or "" for t in parameters(model) if t.dtype == ir.DataType.DOUBLE and t.size > 1]
    casts = [n for n in nodes(model) if cast_to(n) == ir.DataType.DOUBLE]
    groups = ((inputs, "input"), (tensors, "weight"), (casts, "Cast"))
    parts = [amount(len(group), word) for group, word in groups if group]
    if not parts:
        return
    # The rewrite keeps a Cast after each input and before each output.
    uses = [use.node for value in inputs for use in value.uses()]
    inside = tensors or not all(is_op(n, "Cast") for n in uses) or not all(map(_is_last, casts))
    does = "the model computes in float64" if inside else "only inputs and outputs are in float64"
    finding = Finding(
        code=CODE,
        what=f"{does} ({', '.join(parts)}), which needs twice the memory of float32",
        where=(*(v.name or "" for v in inputs), *tensors, *map(name_of, casts)),
        fix="export in float32: array.astype(numpy.float32)",
    )
    yield fixed_by(REWRITE, finding, facts)


def _is_last(cast: ir.Node) -> bool:
    """Return whether the result of a Cast is only used as a graph output."""
    output = cast.outputs[0]
    return output.is_graph_output() and not output.uses()
