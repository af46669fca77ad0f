"""Axes along which the rows of a value may be reordered, followed from TopK, NonMaxSuppression and NonZero.

Each axis of such a value has a role. Rows are reordered along the "free" axis. "joint" axes move with the rows: a row
may be a box with its four numbers. Each index of a "fixed" axis has a separate order: rows of two images do not mix. If
an operator cannot be followed, the roles are lost, and the value is compared element by element.

Values whose rows were selected together, such as the boxes, scores and classes of detections, have the same order: the
rows at one position of all of them belong together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import onnx_ir as ir

from ortune.graph.attributes import int_of, ints_of
from ortune.graph.constants import constant
from ortune.graph.kinds import BROADCASTING, UNARY
from ortune.graph.model.graphs import op_set
from ortune.graph.shapes.known import Dims, Values

__all__ = ["Role", "Roles", "RowOrder", "decided_order", "decided_roles", "followed_order", "followed_roles"]

Role = Literal["free", "joint", "fixed"]
Roles = tuple[Role, ...]
"""The role of each axis of a value, in axis order."""

_JOINT: Roles = ("joint",)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrder:
    """The selection that gave rows their order.

    Attributes:
        key: The nodes and values that determine the order; equal for values whose rows correspond one to one.
        is_sorted: Whether the rows are sorted by a score, so only rows with tied scores may be swapped.
        scores: The sorted scores, one per row; None if they have no value of their own in the graph.
        axis: The axis of ``scores`` along which they are sorted.
    """

    key: tuple[object, ...]
    is_sorted: bool = False
    scores: ir.Value | None = None
    axis: int = -1


Sized = Callable[[], Values]
"""Returns the inferred shapes of a model on demand, since inference is slow and most models do not need it."""

_ELEMENTWISE = UNARY | BROADCASTING | {"LabelEncoder"}
_OF_TWO = op_set("Gather GatherElements GatherND ArrayFeatureExtractor")
_REDUCE = op_set(
    "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSumExp ReduceSumSquare "
    "ArgMax ArgMin"
)


def decided_roles(node: ir.Node, output: int, sized: Sized) -> Roles | None:
    """Return the roles of an output of a node that selects positions or rows; None if the output's rank is unknown."""
    op = node.op_type
    if op == "NonMaxSuppression":
        return ("free", "joint")
    if op == "NonZero":
        return ("joint", "free")
    dims = sized().dims(node.outputs[output])
    if dims is None or (op == "Unique" and output == 2):
        return None  # the inverse indices of Unique have one element per input element
    if op == "TopK":
        return _with_free(len(dims), int_of(node, "axis", -1), "fixed")
    # Without an axis, Compress and Unique flatten their input; the indices and counts of Unique are
    # one-dimensional.
    axis = int_of(node, "axis", 0) if output == 0 else 0
    return _with_free(len(dims), axis, "joint")


def decided_order(node: ir.Node, source: RowOrder | None) -> RowOrder:
    """Return the order of the rows that a node selects.

    Args:
        node: A node that selects positions or rows.
        source: The order of the rows from which it selects; None if it is fixed.
    """
    before = None if source is None else source.key
    if node.op_type in ("NonZero", "Compress"):
        # Several nodes may select from several values by the same mask.
        return RowOrder(key=(node.op_type, node.inputs[-1], before))
    if node.op_type == "TopK" and int_of(node, "sorted", 1):
        return RowOrder(
            key=(node, before), is_sorted=True, scores=node.outputs[0], axis=int_of(node, "axis", -1)
        )
    return RowOrder(key=(node, before))


def followed_order(
    node: ir.Node, output: int, roles: Sequence[Roles | None], orders: Sequence[RowOrder | None]
) -> RowOrder | None:
    """Return the order of the rows of a node's output; None if its inputs have rows in different orders.

    Args:
        node: A node with at least one input with roles.
        output: Index of the output.
        roles: Roles of each input; None for an input whose order is fixed.
        orders: Order of the rows of each input.
    """
    op = node.op_type
    if op in _OF_TWO and roles[1] is not None:
        return orders[1]  # the positions determine the order, whatever the order of the data
    of_rows = [(own, order) for own, order in zip(roles, orders, strict=True) if own is not None]
    own, order = of_rows[0]
    if order is None or any(other is None for _, other in of_rows):
        return None
    if op == "Concat" and int_of(node, "axis", 0) % len(own) == own.index("free"):
        return RowOrder(key=("Concat", *(other.key for _, other in of_rows if other is not None)))
    if any(other != order for _, other in of_rows):
        return None
    if op in ("Slice", "Split") and _divides(node, own):
        limits = [tuple(ints_of(node, name) or ()) for name in ("starts", "ends", "split")]
        part = [*limits, *map(_identity, node.inputs[1:])]
        return RowOrder(key=(op, output, *part, order.key), is_sorted=order.is_sorted)
    return order


def _divides(node: ir.Node, roles: Roles) -> bool:
    """Return whether a Slice or Split may separate rows along the free axis."""
    if node.op_type == "Split":
        axes: Sequence[int] | None = [int_of(node, "axis", 0)]
    elif len(node.inputs) > 3 and node.inputs[3] is not None:
        given = constant(node.inputs[3], most=len(roles))
        axes = None if given is None else [int(axis) for axis in given.reshape(-1)]
    else:
        axes = ints_of(node, "axes") or range(len(roles))
    return axes is None or roles.index("free") in [axis % len(roles) for axis in axes]


def _identity(value: ir.Value | None) -> object:
    """Return the content of a constant, and any other value itself, so that equal limits compare equal."""
    content = None if value is None else constant(value, most=16)
    return value if content is None else content.tobytes()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """The inputs of a node.

    Attributes:
        roles: Roles of each input; None for an input whose order is fixed.
        fixed: Whether each input is the same in every run, because it is computed only from constants.
        sized: The inferred shapes.
    """

    node: ir.Node
    roles: Sequence[Roles | None]
    fixed: Sequence[bool]
    sized: Sized

    @property
    def first(self) -> Roles | None:
        """The roles of the first input."""
        return self.roles[0]

    def dims(self, value: ir.Value | None) -> Dims | None:
        """Return the inferred shape of a value; None if unknown."""
        return self.sized().dims(value)

    def rank(self, value: ir.Value | None) -> int | None:
        """Return the number of axes of a value; None if unknown."""
        dims = self.dims(value)
        return None if dims is None else len(dims)


def followed_roles(
    node: ir.Node, inputs: Sequence[Roles | None], fixed: Sequence[bool], sized: Sized
) -> Roles | None:
    """Return the roles of a node's outputs, derived from those of its inputs; None if they cannot be followed.

    Args:
        node: A node with at least one input with roles.
        inputs: Roles of each input; None for an input whose order is fixed.
        fixed: Whether each input is the same in every run.
        sized: The inferred shapes.
    """
    follow = _FOLLOWED.get(node.op_type)
    # In an invalid model, a node may lack an input.
    if follow is None or (len(inputs) < 2 and node.op_type in _OF_TWO):
        return None
    return follow(_Read(node=node, roles=inputs, fixed=fixed, sized=sized))


def _with_free(rank: int, axis: int, others: Role) -> Roles | None:
    if not -rank <= axis < rank:
        return None
    return tuple("free" if i == axis % rank else others for i in range(rank))


def _broadcast(read: _Read) -> Roles | None:
    """Return a broadcast's output roles, if inputs with roles agree and others are constant along the free axis."""
    rank = max(len(roles) for roles in read.roles if roles is not None)
    padded = {_padded(roles, rank) for roles in read.roles if roles is not None}
    if len(padded) > 1:
        return None
    (roles,) = padded
    from_end = rank - roles.index("free")
    for value, own in zip(read.node.inputs, read.roles, strict=True):
        if value is None or own is not None:
            continue
        dims = read.dims(value)
        if dims is None or len(dims) > rank or (len(dims) >= from_end and dims[-from_end] != 1):
            return None
    return roles


def _padded(roles: Roles, rank: int) -> Roles:
    return _JOINT * (rank - len(roles)) + roles


def _concatenated(read: _Read) -> Roles | None:
    kinds = {roles for roles in read.roles if roles is not None}
    # An input that varies without roles has a separate value per row, so the order matters.
    own = any(roles is None and not same for roles, same in zip(read.roles, read.fixed, strict=True))
    return None if own or len(kinds) > 1 else kinds.pop()


def _transposed(read: _Read) -> Roles | None:
    if read.first is None:
        return None
    order = ints_of(read.node, "perm") or list(range(len(read.first)))[::-1]
    return tuple(read.first[i] for i in order) if sorted(order) == list(range(len(read.first))) else None


def _same(read: _Read) -> Roles | None:
    return read.first


def _expanded(read: _Read) -> Roles | None:
    """Return the roles of the output of an Expand, which repeats rows only along axes other than the free one."""
    rank, dims = read.rank(read.node.outputs[0]), read.dims(read.node.inputs[0])
    if read.first is None or rank is None or dims is None or dims[read.first.index("free")] == 1:
        return None
    return _padded(read.first, rank)


def _selected(read: _Read) -> Roles | None:
    """Return the roles of the output of a node that selects some of the rows again."""
    if read.first is None:
        return None
    axis = int_of(read.node, "axis", -1 if read.node.op_type == "TopK" else 0)
    return read.first if read.first[axis % len(read.first)] == "free" else None


def _row_by_row(read: _Read) -> Roles | None:
    """Return the output roles of an operator that processes rows independently, if other operands are constant."""
    if read.first is None or read.first[-1] != "joint":
        return None
    alone = all(roles is None and same for roles, same in zip(read.roles[1:], read.fixed[1:], strict=True))
    last = int_of(read.node, "axis", -1) in (-1, len(read.first) - 1)
    return read.first if alone and last else None


def _gathered(read: _Read) -> Roles | None:
    """Return the roles of elements gathered at reorderable indices, or of rows gathered along another axis."""
    data, at = read.roles[0], read.roles[1]
    axis = int_of(read.node, "axis", 0)
    if at is None:
        at_rank = read.rank(read.node.inputs[1])
        # Indexing the free axis at fixed positions depends on the order of the rows.
        if data is None or at_rank is None or data[axis % len(data)] == "free":
            return None
        axis %= len(data)
        return data[:axis] + (data[axis],) * at_rank + data[axis + 1 :]
    rank = len(data) if data is not None else read.rank(read.node.inputs[0])
    if rank is None or not _from_rows(data, axis):
        return None
    axis %= rank
    return _padded(at, len(at) + axis) + _JOINT * (rank - axis - 1)


def _elements_gathered(read: _Read) -> Roles | None:
    data, at = read.roles[0], read.roles[1]
    return at if _from_rows(data, int_of(read.node, "axis", 0)) else None


def _gathered_by_tuples(read: _Read) -> Roles | None:
    data, at, rank = read.roles[0], read.roles[1], read.rank(read.node.outputs[0])
    if at is None or rank is None or at[-1] != "joint" or data is not None:
        return None
    return at[:-1] + _JOINT * (rank - len(at) + 1)


def _features_gathered(read: _Read) -> Roles | None:
    """Return the roles of elements that an ArrayFeatureExtractor gathers from a constant list."""
    at, rank = read.roles[1], read.rank(read.node.outputs[0])
    return None if at is None or rank is None or rank < len(at) else _padded(at, rank)


def _from_rows(data: Roles | None, axis: int) -> bool:
    """Return whether elements are gathered from a value in fixed order, or along its free axis."""
    return data is None or data[axis % len(data)] == "free"


def _reshaped(read: _Read) -> Roles | None:
    """Return the roles after a reshape that only adds or removes axes of length one, or merges or splits joint axes."""
    roles, old, new = read.first, read.dims(read.node.inputs[0]), read.dims(read.node.outputs[0])
    if roles is None or old is None or new is None or len(old) != len(roles):
        return None
    if old[roles.index("free")] == 1:
        return None  # a single row: its axis cannot be distinguished from other axes of length one
    kept = [role for role, size in zip(roles, old, strict=True) if size != 1]
    at = [i for i, size in enumerate(new) if size != 1]
    if len(kept) == len(at):
        places = dict(zip(at, kept, strict=True))
        return tuple(places.get(i, "joint") for i in range(len(new)))
    head = roles.index("free") + 1
    tails = [_product(old[head:]), _product(new[head:])]
    if set(roles[head:]) == {"joint"} and tails[0] is not None and tails[0] == tails[1]:
        return roles[:head] + _JOINT * (len(new) - head)
    return None


def _product(dims: Sequence[int | str | None]) -> int | None:
    total = 1
    for size in dims:
        if not isinstance(size, int):
            return None
        total *= size
    return total


def _reduced(read: _Read) -> Roles | None:
    if read.first is None:
        return None
    roles, rank = read.first, len(read.first)
    axes = [int_of(read.node, "axis", 0)] if "Arg" in read.node.op_type else ints_of(read.node, "axes")
    if axes is None and len(read.node.inputs) > 1:
        given = constant(read.node.inputs[1], most=rank)
        axes = None if given is None else [int(axis) for axis in given.reshape(-1)]
    gone = {axis % rank for axis in axes or ()}
    if not gone or any(roles[axis] != "joint" for axis in gone):
        return None
    if int_of(read.node, "keepdims", 1):
        return roles
    return tuple(role for i, role in enumerate(roles) if i not in gone)


_FOLLOWED: dict[str, Callable[[_Read], Roles | None]] = {
    **dict.fromkeys(_ELEMENTWISE, _broadcast),
    **dict.fromkeys(_REDUCE, _reduced),
    **dict.fromkeys(op_set("Slice Split"), _same),
    **dict.fromkeys(op_set("TopK Compress"), _selected),
    **dict.fromkeys(op_set("MatMul Softmax LogSoftmax LayerNormalization"), _row_by_row),
    **dict.fromkeys(op_set("Reshape Flatten Squeeze Unsqueeze"), _reshaped),
    "Concat": _concatenated,
    "Expand": _expanded,
    "Transpose": _transposed,
    "Gather": _gathered,
    "GatherElements": _elements_gathered,
    "GatherND": _gathered_by_tuples,
    "ArrayFeatureExtractor": _features_gathered,
}
