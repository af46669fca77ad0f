"""Whole rows are scattered element by element.

What it is: ScatterElements over the first axis whose indices are one index per row, repeated along the row by Expand
    or Tile, or stored so.
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
from ortune.graph.nodes import input_of, is_op, maker_of, source_of
from ortune.model.graphs import nodes
from ortune.records import Finding
from ortune.rules._words import name_of, subject
from ortune.rules.facts import Facts

CODE = "GRA023"

_MOST = 1 << 20  # numbers of indices that are stored

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
    """Everywhere in the model."""
    walked = nodes(facts.model.ir) if facts.model else ()
    scatters = [node for node in walked if is_op(node, "ScatterElements") and _of_rows(node)]
    if scatters:
        yield Finding(
            code=CODE,
            what=f"{subject(scatters, 'scatters', 'scatter')} whole rows element by element",
            where=tuple(map(name_of, scatters)),
            fix="use ScatterND with one index per row",
        )


def _of_rows(node: ir.Node) -> bool:
    """Whether the indices are a column that is repeated along the rows, or was when they were stored."""
    axis, data = int_of(node, "axis", 0), node.inputs[0]
    shape = data.shape if data is not None else None
    if axis != 0 and (shape is None or axis + len(shape) != 0):
        return False
    indices = input_of(node, 1)
    stored = constant(source_of(indices), most=_MOST) if indices is not None else None
    if stored is not None:
        return shape is not None and _repeats(stored, tuple(shape[1:]))
    maker = maker_of(indices)
    if maker is None or not is_op(maker, "Expand", "Tile"):
        return False
    column = source_of(maker.inputs[0])
    before = maker_of(column)
    if column is not None and column.shape is not None:
        return len(column.shape) > 1 and all(dim == 1 for dim in column.shape[1:])
    if before is not None and is_op(before, "Reshape"):
        sizes = constant(before.inputs[1])
        return sizes is not None and sizes.size > 1 and bool((sizes[1:] == 1).all())
    return is_op(before, "Unsqueeze")


def _repeats(indices: np.ndarray, row: tuple[object, ...]) -> bool:
    """Whether stored indices have one number a row, and rows as long as those that they go to."""
    if indices.ndim < 2 or indices.shape[1:] != row or not indices.size or indices[0].size < 2:
        return False
    rows = indices.reshape(len(indices), -1)
    return bool((rows == rows[:, :1]).all())
