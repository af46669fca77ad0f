"""Propagation of the row axis through operators, including where they combine rows.

An operator without a rule loses the axis; later values are then unknown, unless rows were combined before.
"""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from ortune.graph.model.graphs import op_set
from ortune.graph.rows import indexing, meeting, moving, windows
from ortune.graph.rows.state import GONE, LOST, RowAxis, Rows, RowStep
from ortune.graph.shapes.known import Values

SHARED_RANGE = op_set("DynamicQuantizeLinear DynamicQuantizeMatMul DynamicQuantizeLSTM")
"""Operators that compute a single quantization range over the whole input."""


def after(
    node: ir.Node,
    inputs: list[Rows],
    inside: list[Rows] | None,
    values: Values,
    *,
    symbols: frozenset[str],
    padded: bool,
) -> list[Rows]:
    """Return the row states of a node's outputs.

    Args:
        node: The node.
        inputs: Row states of the node's inputs.
        inside: Output states of the node's subgraphs or function body; None if the node has neither.
        values: Inferred shapes.
        symbols: Names of the batch size in ``values``.
        padded: Whether rows may be padded, so a quantization range over a whole row includes its padding.
    """
    if inside is not None:
        bodies = any(
            attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
            for attribute in node.attributes.values()
        )
        # Loops and branches may change the meaning of an axis; a function does not.
        return [replace(rows, axis=None, lost=rows.depends_on_rows) for rows in inside] if bodies else inside
    data = [
        Rows() if position in _NO_DATA.get(node.op_type, ()) else rows for position, rows in enumerate(inputs)
    ]
    there, varies = any(rows.depends_on_rows for rows in data), any(rows.varies for rows in data)
    mixed = frozenset(mixer for rows in data for mixer in rows.mixed)
    if node.op_type in _FORGETS or not (varies or there):
        return [Rows() for _ in node.outputs]
    if node.op_type in SHARED_RANGE and (there or padded):
        mixed |= {node}
    found: RowAxis | list[RowAxis] = GONE if there else RowAxis()
    spread = any(rows.spread for rows in data) and node.op_type not in _WITH_SPREAD_ROWS
    if there and node.op_type in _HANDLERS and not spread:
        try:
            found = _HANDLERS[node.op_type](RowStep(node=node, inputs=data, values=values, symbols=symbols))
        except (LookupError, TypeError, ValueError):  # ONNX Runtime reports contradictory operands
            found = GONE
    each = found if isinstance(found, list) else [found] * len(node.outputs)
    each = [*each, *[GONE] * (len(node.outputs) - len(each))]
    return [
        Rows(
            axis=one.axis if one.axis != LOST else None,
            lost=one.axis == LOST,
            spread=one.spread,
            varies=True,
            mixed=mixed | {node} if one.meets and _floating(node, data, values) else mixed,
        )
        for one in each
    ]


def _floating(node: ir.Node, data: list[Rows], values: Values) -> bool:
    """Return whether all inputs with rows are floating-point; integers, such as lengths, are not results of a row."""
    types = [values.inferred(node.inputs[i]).dtype for i, rows in enumerate(data) if rows.depends_on_rows]
    return all(dtype is not None and dtype.is_floating_point() for dtype in types)


_NO_DATA: dict[str, tuple[int, ...]] = {
    "Reshape": (1,), "Expand": (1,), "Slice": (1, 2, 3, 4), "Tile": (1,), "Pad": (1, 2, 3), "Resize": (1, 2, 3),
    "Upsample": (1,), "TopK": (1,), "Split": (1,), "Unsqueeze": (1,), "Squeeze": (1,), "CumSum": (1,),
}  # fmt: skip
"""Maps operators to the indices of inputs that define positions or sizes instead of data."""
_FORGETS = op_set("Shape Size ConstantOfShape Range EyeLike RandomNormalLike RandomUniformLike NonZero")
_WITH_SPREAD_ROWS = moving.ELEMENTWISE | meeting.NORMALISES | {"Reshape"}
"""Operators that keep elements in place; after all others, rows that are spread over several axes are lost."""
_HANDLERS = moving.HANDLERS | indexing.HANDLERS | windows.HANDLERS | meeting.HANDLERS
