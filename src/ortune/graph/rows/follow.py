"""How each operator passes on the axis that holds the rows of a batch, and where it mixes them.

An operator that is not listed loses the axis: nothing is said of what follows from it, unless rows met before.
"""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from ortune.graph.model.graphs import op_set
from ortune.graph.rows import meeting, moving
from ortune.graph.rows.state import GONE, LOST, RowAxis, Rows, Step
from ortune.graph.shapes.known import Values

SHARED_RANGE = op_set("DynamicQuantizeLinear DynamicQuantizeMatMul DynamicQuantizeLSTM")
"""Operators that take one quantization range from all that they are given, whatever its axes are."""


def after(
    node: ir.Node,
    inputs: list[Rows],
    inside: list[Rows] | None,
    values: Values,
    *,
    symbols: frozenset[str],
    padded: bool,
) -> list[Rows]:
    """Return the rows of a node's outputs.

    Args:
        node: The node.
        inputs: The rows of its inputs.
        inside: What its subgraphs or its function give.
        values: Inferred shapes.
        symbols: The size of the batch, by its names there.
        padded: Whether rows may be padded: a range over all of a row then includes its padding.
    """
    if inside is not None:
        bodies = any(
            attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
            for attribute in node.attributes.values()
        )
        # Rounds and branches may give an axis another meaning, a function does not.
        return [replace(rows, axis=None, lost=rows.there) for rows in inside] if bodies else inside
    data = [
        Rows() if position in _NO_DATA.get(node.op_type, ()) else rows for position, rows in enumerate(inputs)
    ]
    there, varies = any(rows.there for rows in data), any(rows.varies for rows in data)
    mixed = frozenset(mixer for rows in data for mixer in rows.mixed)
    if node.op_type in _FORGETS or not (varies or there):
        return [Rows() for _ in node.outputs]
    if node.op_type in SHARED_RANGE and (there or padded):
        mixed |= {node}
    found: RowAxis | list[RowAxis] = GONE if there else RowAxis()
    spread = any(rows.spread for rows in data) and node.op_type not in _WITH_SPREAD_ROWS
    if there and node.op_type in _HANDLERS and not spread:
        try:
            found = _HANDLERS[node.op_type](Step(node=node, inputs=data, values=values, symbols=symbols))
        except (LookupError, TypeError, ValueError):  # its operands contradict it: ONNX Runtime says how
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
    """Return whether rows are of floating-point numbers: the longest of several lengths is no answer of a row."""
    types = [values.of(node.inputs[i]).dtype for i, rows in enumerate(data) if rows.there]
    return all(dtype is not None and dtype.is_floating_point() for dtype in types)


_NO_DATA: dict[str, tuple[int, ...]] = {
    "Reshape": (1,), "Expand": (1,), "Slice": (1, 2, 3, 4), "Tile": (1,), "Pad": (1, 2, 3), "Resize": (1, 2, 3),
    "Upsample": (1,), "TopK": (1,), "Split": (1,), "Unsqueeze": (1,), "Squeeze": (1,), "CumSum": (1,),
}  # fmt: skip
"""Inputs that say where and how much, not what."""
_FORGETS = op_set("Shape Size ConstantOfShape Range EyeLike RandomNormalLike RandomUniformLike NonZero")
_WITH_SPREAD_ROWS = moving.ELEMENTWISE | meeting.NORMALISES | {"Reshape"}
"""Operators that keep elements where they are; any other loses rows that are spread over several axes."""
_HANDLERS = moving.HANDLERS | meeting.HANDLERS
