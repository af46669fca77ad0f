"""Operators that read or write elements at indices."""

from __future__ import annotations

from ortune.graph.attributes import int_of, optional_int
from ortune.graph.model.graphs import op_set
from ortune.graph.nodes import input_of
from ortune.graph.rows.state import GONE, Handler, RowAxis, RowStep


def _gather(step: RowStep) -> RowAxis:
    at = int_of(step.node, "gather_axis" if step.node.op_type == "GatherBlockQuantized" else "axis", 0)
    rank, rank_of_indices = step.rank(0), step.rank(1)
    if rank is None or rank_of_indices is None:
        return GONE
    at %= rank
    data, indices = step.rows(0), step.rows(1)
    if data.depends_on_rows and indices.depends_on_rows:
        return GONE
    if indices.depends_on_rows:
        return GONE if indices.axis is None else RowAxis(at + indices.axis)
    if data.axis is None or data.axis == at:
        return GONE
    return RowAxis(data.axis if data.axis < at else data.axis + rank_of_indices - 1)


def _elements(step: RowStep) -> RowAxis:
    """Keep the row axis of GatherElements and ScatterElements along another axis: positions on it stay."""
    axes = {rows.axis for rows in step.inputs if rows.depends_on_rows}
    rank = step.rank(0)
    if len(axes) != 1 or None in axes or rank is None:
        return GONE
    axis = axes.pop()
    return GONE if int_of(step.node, "axis", 0) % rank == axis else RowAxis(axis)


def _gather_nd(step: RowStep) -> RowAxis:
    rank, depth, rank_of_indices = step.rank(0), _depth(step), step.rank(1)
    if rank is None or depth is None or rank_of_indices is None:
        return GONE
    n_batch = int_of(step.node, "batch_dims", 0)
    data, indices = step.rows(0), step.rows(1)
    if any(rows.depends_on_rows and rows.axis is None for rows in (data, indices)):
        return GONE
    if data.axis is None:
        return GONE if indices.axis == rank_of_indices - 1 else RowAxis(indices.axis)
    if indices.axis is not None:
        return RowAxis(data.axis) if data.axis == indices.axis < n_batch else GONE
    if data.axis < n_batch:
        return RowAxis(data.axis)
    # Axes after the indexed ones follow those of the indices.
    after = data.axis - n_batch - depth
    return GONE if after < 0 else RowAxis(rank_of_indices - 1 + after)


def _scatter_nd(step: RowStep) -> RowAxis:
    rank, depth, rank_of_updates = step.rank(0), _depth(step), step.rank(2)
    if rank is None or depth is None or rank_of_updates is None or step.rows(1).depends_on_rows:
        return GONE
    # The axes that are not indexed are the last ones of the data and the updates.
    from_end = {
        None if rows.axis is None else rows.axis - own
        for rows, own in ((step.rows(0), rank), (step.rows(2), rank_of_updates))
        if rows.depends_on_rows
    }
    found = from_end.pop() if len(from_end) == 1 else None
    return GONE if found is None or rank + found < depth else RowAxis(rank + found)


def _depth(step: RowStep) -> int | None:
    """Return the number of axes that each index of GatherND and ScatterND selects in; None if it is unknown."""
    sizes = step.values.sizes(input_of(step.node, 1))
    return sizes[-1] if sizes else None


def _sequence(step: RowStep) -> RowAxis:
    """Keep the row axis of a ReverseSequence, which reverses the steps of each row."""
    axis = step.axis()
    return GONE if axis is None or axis == int_of(step.node, "time_axis", 0) else RowAxis(axis)


def _compress(step: RowStep) -> RowAxis:
    axis, rank, along = step.axis(), step.rank(), optional_int(step.node, "axis")
    if axis is None or rank is None or along is None or step.rows(1).depends_on_rows:
        return GONE
    return GONE if along % rank == axis else RowAxis(axis)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(op_set("Gather GatherBlockQuantized"), _gather),
    **dict.fromkeys(op_set("GatherElements Scatter ScatterElements"), _elements),
    "GatherND": _gather_nd,
    "ScatterND": _scatter_nd,
    "ReverseSequence": _sequence,
    "Compress": _compress,
}
