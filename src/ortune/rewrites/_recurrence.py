"""Unrolled recurrences, found by the weights that their steps share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import int_of, ints_of
from ortune.graph.constants import constant
from ortune.graph.nodes import Scope, input_of, is_op, source_of
from ortune.rewrites._cells import RecurrentCell, cell_of, is_memory
from ortune.rewrites._pattern import PatternFacts
from ortune.rewrites._step import RecurrenceStep, stored_weight

LEAST_STEPS = 8
"""Minimum number of steps; shorter recurrences are as fast unrolled."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recurrence:
    """An unrolled LSTM, GRU or RNN.

    Attributes:
        cells: The cell of each step; all cells are equal.
        states: The state after each step.
        memory: The cell state of an LSTM after the last step; None if it is not computed.
        nodes: All nodes of the steps, in graph order.
    """

    cells: tuple[RecurrentCell, ...]
    states: tuple[ir.Value, ...]
    memory: ir.Value | None
    nodes: tuple[ir.Node, ...]

    @property
    def kind(self) -> str:
        """The ONNX operator: "LSTM", "GRU" or "RNN"."""
        return self.cells[0].kind


def recurrences(scope: Scope, look: PatternFacts) -> Iterator[Recurrence | str]:
    """Yield the unrolled recurrences of a graph, which share no nodes, and the reasons for near misses."""
    products: defaultdict[ir.Value, list[ir.Node]] = defaultdict(list)
    for node in scope:
        weight = stored_weight(node)
        if weight is not None:
            products[weight[0]].append(node)
    gone: set[ir.Node] = set()
    reasons: list[tuple[str, ir.Node]] = []
    for value, group in products.items():
        if len(group) >= LEAST_STEPS and not gone.intersection(group):
            recurrence = _recurrence(scope, value, group, look)
            if isinstance(recurrence, Recurrence):
                gone.update(recurrence.nodes)
                yield recurrence
            elif recurrence:
                reasons.append((recurrence, group[-1]))
    # A cell has several weights, so a failed weight does not count if another one matched.
    yield from (reason for reason, node in reasons if node not in gone)


def _recurrence(
    scope: Scope, weight: ir.Value, products: Sequence[ir.Node], look: PatternFacts
) -> Recurrence | str:
    """Match the recurrence of products with shared weights, or return the reason for a near miss ("" if unrelated)."""
    operands = list(dict.fromkeys(source_of(v) for node in products if (v := node.inputs[0]) is not None))
    levels = _levels(scope, operands)
    # In a recurrence, the operand of step k depends on exactly k steps, and the first on none.
    if [levels.get(value, 0) for value in operands] != list(range(len(operands))) or len(
        operands
    ) < LEAST_STEPS:
        return ""
    what = f"the {len(operands)} steps with the weights {weight.name!r}"
    before = _states(operands, levels)
    if before is None:
        return f"{what} pass on more than their state"
    steps = [RecurrenceStep(state, number, levels, look) for number, state in enumerate(before, 1)]
    cells = [cell_of(step, end) for step, end in zip(steps[:-1], before[1:], strict=True)]
    if cells[-1] is None:
        return f"{what} do not match an LSTM, GRU or RNN"
    # No step follows the last to identify its state, which is the value that gives the same cell.
    behind = [v for node in scope for v in node.outputs if levels.get(v, 0) == len(steps)]
    last = next((v for v in behind if (cell := cell_of(steps[-1], v)) and cell.same(cells[-1])), None)
    ends = before[1:] if last is None else [*before[1:], last]
    cells += [] if last is None else [cell_of(steps[-1], last)]
    steps = steps[: len(cells)]
    # The first steps may be written differently, since their state is zero.
    first = _first_alike(cells, steps)
    chosen = [cell for cell in cells[first:] if cell is not None]
    if len(chosen) < LEAST_STEPS:
        return f"{what} do not all compute the same function"
    memory = _last_memory(steps[-1], chosen[-1], [v for v, n in levels.items() if n == len(steps)])
    # Discard the nodes recorded while other values were tried as the end of the last step.
    steps[-1] = RecurrenceStep(before[len(steps) - 1], len(steps), levels, look)
    cell_of(steps[-1], ends[-1])
    own = dict.fromkeys(node for step in steps[first:] for node in step.nodes)
    fed = {node for step in steps[first:] for node in step.fed}
    # Include nodes that feed only these steps.
    for node in reversed(list(scope)):
        read = [
            use.node in own and not value.is_graph_output() for value in node.outputs for use in value.uses()
        ]
        if node in fed and all(read):
            own[node] = None
    passed = {*ends[first:], memory}
    for node in own:
        for value in node.outputs:
            others = [use.node for use in value.uses() if use.node not in own]
            if value not in passed and (value.is_graph_output() or others):
                return f"{value.name!r} in {what} is also used elsewhere"
    return Recurrence(
        cells=tuple(chosen),
        states=tuple(ends[first:]),
        memory=memory,
        nodes=tuple(n for n in scope if n in own),
    )


def _levels(scope: Scope, operands: Sequence[ir.Value]) -> dict[ir.Value, int]:
    """Map each value to the largest number of `operands` on a path to the value; values with 0 are omitted."""
    of, levels = set(operands), dict[ir.Value, int]()
    for node in scope:
        copies = is_op(node, "Identity")
        inputs = [v for v in node.inputs if v is not None]
        level = max((levels.get(v, 0) + (not copies and source_of(v) in of) for v in inputs), default=0)
        if level:
            levels.update(dict.fromkeys(node.outputs, level))
    return levels


def _states(operands: Sequence[ir.Value], levels: dict[ir.Value, int]) -> list[ir.Value] | None:
    """Return the state before each step: the operand, or the Concat input from the previous step; None if ambiguous."""
    last = operands[-1].producer()
    if last is None or not is_op(last, "Concat"):
        return list(operands)
    places = [i for i, v in enumerate(last.inputs) if v is not None and levels.get(v, 0) == len(operands) - 1]
    producers = [value.producer() for value in operands]
    joins = [
        node
        for node in producers
        if node is not None and is_op(node, "Concat") and len(node.inputs) == len(last.inputs)
    ]
    if len(places) != 1 or len(joins) < len(producers):
        return None
    states = [node.inputs[places[0]] for node in joins]
    return [source_of(value) for value in states if value is not None]


def _first_alike(cells: Sequence[RecurrentCell | None], steps: Sequence[RecurrenceStep]) -> int:
    """Return the index of the first step from which all cells are equal and each cell continues the previous cell."""
    last = cells[-1]
    if last is None:
        return len(cells)
    first = len(cells) - 1
    while first > 0:
        cell, after = cells[first - 1], cells[first]
        if cell is None or after is None or not cell.same(last):
            break
        if after.memory is not None and not is_memory(steps[first - 1], cell, after.memory):
            break
        if after.kind == "LSTM" and after.memory is None:
            break
        first -= 1
    return first


def _last_memory(step: RecurrenceStep, cell: RecurrentCell, values: Sequence[ir.Value]) -> ir.Value | None:
    """Return the cell state after the last step of an LSTM; None for other kinds or if it is not computed."""
    if cell.kind != "LSTM":
        return None
    return next((value for value in values if is_memory(step, cell, value)), None)


# --- inputs of the steps
# ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisIndex:
    """A selection of one index along an axis of a 3D value, which removes that axis.

    Attributes:
        source: The indexed value.
        axis: The axis, 0 to 2.
        place: The index along the axis, which may be negative.
    """

    source: ir.Value
    axis: int
    place: int


def match_index(value: ir.Value) -> AxisIndex | None:
    """Match a selection of one index of a 3D value (Gather, or a slice and Squeeze); return None for anything else."""
    node = value.producer()
    if node is not None and is_op(node, "Gather"):
        place = constant(node.inputs[1])
        return (
            None
            if place is None or place.ndim
            else _axis_index(node.inputs[0], int_of(node, "axis", 0), place)
        )
    if node is None or not is_op(node, "Squeeze") or node.inputs[0] is None:
        return None
    axes = ints_of(node, "axes") if input_of(node, 1) is None else _ints(node.inputs[1])
    piece = node.inputs[0].producer()
    if axes is None or len(axes) != 1 or piece is None:
        return None
    return _piece(piece, axes[0], node.inputs[0])


def _piece(piece: ir.Node, axis: int, value: ir.Value) -> AxisIndex | None:
    """Match a one-element slice along the axis that is squeezed afterwards; return None for anything else."""
    if is_op(piece, "Gather"):
        place = constant(piece.inputs[1])
        fits = place is not None and place.shape == (1,) and int_of(piece, "axis", 0) == axis
        return _axis_index(piece.inputs[0], axis, place) if fits else None
    if is_op(piece, "Split"):
        sizes = ints_of(piece, "split") if input_of(piece, 1) is None else _ints(piece.inputs[1])
        alone = (sizes is None or set(sizes) == {1}) and int_of(piece, "axis", 0) == axis
        at = np.asarray(list(piece.outputs).index(value))
        return _axis_index(piece.inputs[0], axis, at) if alone and _is_cut_up(piece) else None
    return _sliced(piece, axis) if is_op(piece, "Slice") else None


def _axis_index(source: ir.Value | None, axis: int, place: np.ndarray | None) -> AxisIndex | None:
    if source is None or place is None or not -3 <= axis <= 2:
        return None
    return AxisIndex(source=source, axis=axis % 3, place=int(place.reshape(())))


def _is_cut_up(split: ir.Node) -> bool:
    """Return whether a Split makes one-element pieces; the caller has checked the sizes of a Split that lists them."""
    if input_of(split, 1) is not None or "split" in split.attributes:
        return True
    shape = split.inputs[0].shape if split.inputs[0] is not None else None
    axis = int_of(split, "axis", 0)
    return shape is not None and shape[axis] == len(split.outputs)


def _sliced(piece: ir.Node, axis: int) -> AxisIndex | None:
    if input_of(piece, 1) is None:
        starts, ends, axes, steps = (ints_of(piece, name) for name in ("starts", "ends", "axes", "steps"))
    else:
        starts, ends, axes, steps = (_ints(input_of(piece, place)) for place in (1, 2, 3, 4))
    if axes != [axis] or starts is None or ends is None or steps not in (None, [1]):
        return None
    # The end of [-1:] exceeds any size.
    one = ends[0] == starts[0] + 1 or (starts[0] == -1 and ends[0] >= np.iinfo(np.int32).max)
    return _axis_index(piece.inputs[0], axis, np.asarray(starts[0])) if one else None


def _ints(value: ir.Value | None) -> list[int] | None:
    numbers = constant(value, most=4096)
    return None if numbers is None or numbers.ndim > 1 else [int(n) for n in numbers.reshape(-1)]
