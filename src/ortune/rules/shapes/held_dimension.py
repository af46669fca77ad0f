"""A dimension is declared as dynamic, but a node takes one size only.

What it is: a batch or a length that the inputs declare as dynamic, and a constant in the graph that holds the size of
    the export: the shape of a Reshape, the repeats of a Tile, a tensor that is concatenated.
Why it costs: the model fails at every other size. Batching, and every size that is tried, fails in the first run.
Evidence: the node, and the only size at which its operands agree, from the shapes in the graph.
Fix and its safety: advice: export the model again without the size as a constant; or fix the dimension with the rewrite
    ``fixed-dimensions``, so the file states what it accepts.
Example: ``--rewrite fixed-dimensions:batch=8``
References: PyTorch documentation, "torch.export", "Expressing dynamism".
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.shapes.held_sizes import HeldSize, held_sizes
from ortune.graph.shapes.symbols import feedable, input_sizes, kind_of_name
from ortune.records import Finding
from ortune.rules._providers import open_inputs
from ortune.rules._words import name_of
from ortune.rules.facts import Facts

CODE = "SHP011"

_KINDS = frozenset(
    {"batch", "seq", "past", "total", "height", "width", "frames", "samples", "encoder", "points"}
)


def _model(rows: str) -> str:
    return f"""
<ir_version: 8, opset_import: ["" : 17]>
held (float[batch,6] x) => (float[batch,3] y)
<int64[3] shape = {{{rows},2,3}}, int64[1] axis = {{1}}>
{{
    [bad_shape] t = Reshape (x, shape)
    y = ReduceSum <keepdims = 0> (t, axis)
}}
"""


BAD = _model("4")
GOOD = _model("-1")


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for each dynamic dimension of a known kind, or batch, that a constant in the model fixes."""
    if facts.model is None or not open_inputs(facts):
        return
    model = facts.model.ir
    for held in held_sizes(model).values():
        if kind_of_name(held.dimension) in _KINDS or _first_axis(model, held):
            yield Finding(
                code=CODE,
                severity="warning",
                what=held.sentence,
                where=(name_of(held.node),),
                fix=f"export the model again without {held.size} as a constant size; or fix the dimension with the "
                f"rewrite fixed-dimensions:{held.dimension}={held.size}",
            )


def _first_axis(model: ir.Model, held: HeldSize) -> bool:
    """Return whether a dimension is the first of several dimensions of an input, and so the batch."""
    shapes = [input_sizes(value) for value in feedable(model)]
    return any(shape and len(shape) > 1 and shape[0].terms == ((held.dimension, 1),) for shape in shapes)
