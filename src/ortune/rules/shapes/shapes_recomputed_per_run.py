"""Shapes are recomputed on every run because dimensions are dynamic.

What it is: Shape, and Gather, Concat, Unsqueeze, arithmetic and similar operators on its result, in a model with
    dynamic dimensions.
Why it costs: each costs the overhead of a node on every run. In a graph on a device they run on the CPU. Memory for
    tensors of unknown size cannot be planned ahead.
Evidence: nodes that depend only on the Shape of an input and on constants. With fixed dimensions, ONNX Runtime folds
    them at session creation.
Fix and its safety: behaviour: the rewrite ``fixed-dimensions``, where the sizes never change; the model then rejects
    all others.
Example: ``--rewrite fixed-dimensions:batch=1``
References: microsoft/onnxruntime#14550, #16424, #10303, #13198, #6978.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.constants import constant_tensor
from ortune.graph.model.graphs import op_set
from ortune.graph.nodes import is_op
from ortune.records import Finding
from ortune.rewrites.fixed_dimensions import REWRITE
from ortune.rules._fixes import fixed_by
from ortune.rules._providers import open_inputs
from ortune.rules._words import name_of, subject
from ortune.rules.facts import Facts

CODE = "SHP004"

_MANY = 5
_ARITHMETIC = op_set(
    "Gather Slice Concat Unsqueeze Squeeze Cast Add Sub Mul Div Mod Neg Floor Ceil Min Max Range ConstantOfShape Equal "
    "Less Greater Not And Or Where Reshape ReduceProd ReduceSum Identity Split Expand Size Shape"
)


def _model(rows: str) -> str:
    return f"""
<ir_version: 8, opset_import: ["" : 17]>
spread (float[{rows},1] x) => (float[n,m] y)
<int64 first = {{0}}, int64[1] axis = {{0}}, int64 four = {{4}}>
{{
    [bad_shape] s = Shape (x)
    [bad_batch] b = Gather <axis = 0> (s, first)
    [bad_count] c = Mul (b, four)
    [bad_rows] r = Unsqueeze (b, axis)
    [bad_columns] u = Unsqueeze (c, axis)
    [bad_sizes] t = Concat <axis = 0> (r, u)
    y = Expand (x, t)
}}
"""


BAD = _model("batch")
GOOD = _model("3")


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on shape computations of the main graph that run every time because of dynamic dimensions."""
    if facts.model is None:
        return
    computed = list(_size_nodes(facts.model.ir.graph)) if open_inputs(facts) else []
    if len(computed) >= _MANY:
        finding = Finding(
            code=CODE,
            severity="note",
            what=f"{subject(computed, 'recomputes', 'recompute')} shapes on every run because of dynamic dimensions",
            where=tuple(map(name_of, computed)),
            fix="fix the dimensions with the rewrite fixed-dimensions, where the sizes never change",
        )
        yield fixed_by(REWRITE, finding, facts)


def _size_nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    """Yield the nodes that compute only on sizes and constants."""
    of_sizes: set[ir.Value] = set()
    for node in graph:
        if node.domain or node.op_type not in _ARITHMETIC:
            continue
        reads_shape = is_op(node, "Shape", "Size")
        if not reads_shape and of_sizes.isdisjoint(node.inputs):
            continue
        operands = [value for value in node.inputs if value is not None and constant_tensor(value) is None]
        if reads_shape:
            hangs = any(value.shape is None or not value.shape.is_static() for value in operands)
        else:
            hangs = bool(operands) and all(value in of_sizes for value in operands)
        if hangs:
            of_sizes.update(node.outputs)
            yield node
