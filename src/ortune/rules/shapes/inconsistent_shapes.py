"""A declared shape contradicts the computed one.

What it is: an output of the model whose declared shape differs from the one that follows from the inputs.
Why it costs: ONNX Runtime logs a warning on every run and does not reuse the memory planned for the value.
Evidence: both shapes, where both are known.
Fix and its safety: advice: declare the dimension as dynamic, or run shape inference again.
Example: a batch of 1 declared for the output of a model that accepts any batch
References: microsoft/onnxruntime#2756, #11274.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.shapes.operators import visit
from ortune.graph.shapes.walk import Shape, Walk
from ortune.records import Finding
from ortune.rules._words import name_of, short
from ortune.rules.facts import Facts

CODE = "SHP003"

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
contradicts (float[4,8] x) => (float[1,8] bad_y)
{
    [bad_relu] bad_y = Relu (x)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
agrees (float[4,8] x) => (float[n,8] y)
{
    y = Relu (x)
}
"""


class _Computed(Walk):
    """Shape inference from inputs and weights alone, since shapes declared for other values may be wrong too."""

    def declared(self, value: ir.Value) -> Shape | None:
        """Return the declared shape of an input or weight; None for values that a node computes."""
        return Walk.declared(self, value) if value.producer() is None else None


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on outputs of the main graph with a wrong declared shape."""
    if facts.model is None:
        return
    graph = facts.model.ir.graph
    # No default sizes are used: only declared sizes of inputs can contradict an output.
    walk = _Computed(keep=lambda symbol: 0, defaults=False)
    for node in graph:
        visit(walk, node)
    contradicted = {value: computed for value in graph.outputs if (computed := _made(walk, value))}
    if contradicted:
        value, computed = next(iter(contradicted.items()))
        yield Finding(
            code=CODE,
            what=f"{short(value.name or '')} is declared as {value.shape} but its shape is [{computed}]",
            where=tuple(map(_producer_name, contradicted)),
            fix="declare the dimension as dynamic, or run onnx.shape_inference again",
        )


def _producer_name(value: ir.Value) -> str:
    node = value.producer()
    return name_of(node) if node is not None else value.name or ""


def _made(walk: Walk, value: ir.Value) -> str:
    """Return the computed shape of a value as text if it contradicts the declared shape; otherwise ""."""
    own = walk.shapes.get(value)
    if own is None or value.shape is None:
        return ""
    computed = [None if size is None else walk.substitute(size).value for size in own]
    wrong = len(computed) != len(value.shape) or any(
        was is not None and isinstance(said, int) and was != said
        for was, said in zip(computed, value.shape, strict=False)
    )
    return ",".join("?" if was is None else str(was) for was in computed) if wrong else ""
