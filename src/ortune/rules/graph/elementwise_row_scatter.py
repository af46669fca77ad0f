"""Whole rows are scattered element by element.

What it is: ScatterElements over the first axis whose indices are one index per row, repeated along the row by Expand or
    Tile, or stored in repeated form.
Why it costs: every element is looked up and written separately, on one thread. ScatterND takes one index per row and
    copies whole rows.
Evidence: the nodes.
Fix and its safety: advice: use ScatterND with the row indices; outputs are equal.
Example: ``torch.scatter_add`` or ``torch_scatter.scatter`` with an expanded index
References: ONNX operator documentation, "ScatterElements" and "ScatterND".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import int_of
from ortune.graph.constants import constant
from ortune.graph.nodes import holds, input_of, is_op, maker_of, source_of, with_operator
from ortune.graph.shapes.known import Values, known_values
from ortune.records import Finding
from ortune.rules._words import name_of, subject
from ortune.rules.facts import Facts

CODE = "GRA023"

_MOST = 1 << 20  # maximum stored indices to read

_TEXT = """
<ir_version: 8, opset_import: ["" : 18]>
rows (float[8,4] zeros, int64[6,INDICES] index, float[6,4] x) => (float[8,4] y)
<int64[2] shape = {6,4}>
{
    all = Expand (index, shape)
    [bad_scatter] y = ScatterElements <axis = 0, reduction = "add"> (zeros, all, x)
}
"""
BAD = _TEXT.replace("INDICES", "1")
GOOD = _TEXT.replace("INDICES", "4")


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on ScatterElements nodes that scatter whole rows."""
    if facts.model is None or not holds(facts.model.ir, "ScatterElements"):
        return
    values = known_values(facts.model.ir)
    scatters = [node for node in with_operator(facts.model.ir, "ScatterElements") if _of_rows(node, values)]
    if scatters:
        yield Finding(
            code=CODE,
            what=f"{subject(scatters, 'scatters', 'scatter')} whole rows element by element",
            where=tuple(map(name_of, scatters)),
            fix="use ScatterND with one index per row",
        )


def _of_rows(node: ir.Node, values: Values) -> bool:
    """Return whether the indices are equal along each row: expanded from a column, or stored so."""
    axis, shape = int_of(node, "axis", 0), values.dims(node.inputs[0])
    # Data, indices and updates have the same rank.
    rank = next((len(dims) for value in node.inputs if (dims := values.dims(value)) is not None), 0)
    if axis not in (0, -rank):
        return False
    indices = input_of(node, 1)
    stored = constant(source_of(indices), most=_MOST) if indices is not None else None
    if stored is not None:
        return shape is not None and _repeats(stored, shape[1:])
    maker = maker_of(indices)
    if maker is None or not is_op(maker, "Expand", "Tile"):
        return False
    column = values.dims(source_of(maker.inputs[0]))
    return column is not None and len(column) > 1 and all(size == 1 for size in column[1:])


def _repeats(indices: np.ndarray, row: tuple[object, ...]) -> bool:
    """Return whether stored indices are equal along each row and their rows are as long as the data's rows."""
    if indices.ndim < 2 or indices.shape[1:] != row or not indices.size or indices[0].size < 2:
        return False
    rows = indices.reshape(len(indices), -1)
    return bool((rows == rows[:, :1]).all())
