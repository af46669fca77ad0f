"""Operators that keep or move the row axis."""

from __future__ import annotations

from ortune.graph.attributes import int_of, ints_of
from ortune.graph.kinds import BROADCASTING, UNARY
from ortune.graph.model.graphs import op_set
from ortune.graph.nodes import input_of
from ortune.graph.rows.state import GONE, Handler, RowAxis, RowStep
from ortune.graph.shapes.known import Dims


def _same(step: RowStep) -> RowAxis:
    axis = step.axis()
    return GONE if axis is None else RowAxis(axis, spread=step.rows().spread)


def _first_alone(step: RowStep) -> RowAxis:
    """Keep the first axis, which is the batch by the operator's definition; rows on any other axis are lost."""
    return RowAxis(0) if step.axis() == 0 else GONE


def _one_hot(step: RowStep) -> RowAxis:
    axis, rank = step.axis(), step.rank_out()
    if axis is None or rank is None:
        return GONE
    return RowAxis(axis + (int_of(step.node, "axis", -1) % rank <= axis))


def _broadcast(step: RowStep) -> RowAxis:
    rank_out, axes = step.rank_out(), set[int]()
    for position, rows in enumerate(step.inputs):
        if not rows.depends_on_rows:
            continue
        rank = step.rank(position)
        if rows.axis is None or rank is None or rank_out is None:
            return GONE
        axes.add(rows.axis + rank_out - rank)
    # Two row axes mean pairs of rows, which is intended.
    spread = any(rows.spread for rows in step.inputs)
    return RowAxis(axes.pop(), spread=spread) if len(axes) == 1 else GONE


def _transpose(step: RowStep) -> RowAxis:
    axis, rank = step.axis(), step.rank()
    if axis is None or rank is None:
        return GONE
    perm = ints_of(step.node, "perm") or list(reversed(range(rank)))
    return RowAxis(perm.index(axis))


def _reshape(step: RowStep) -> RowAxis:
    axis, dims = step.axis(), step.values.dims(input_of(step.node, 0))
    to = step.values.contents(input_of(step.node, 1))
    if axis is None or dims is None or to is None:
        return GONE
    if axis and all(dim == 1 for dim in dims[:axis]):
        dims, axis = dims[axis:], 0
    if axis == 0 or step.rows().spread:
        return _from_first(step, to, None if step.rows().spread else dims[0])
    if len(to) <= axis:
        return GONE
    before = all(
        new == 0 or (new == old and old is not None) for new, old in zip(to[:axis], dims[:axis], strict=True)
    )
    here = to[axis] in (0, -1) or (to[axis] == dims[axis] and dims[axis] is not None)
    return RowAxis(axis) if before and here else GONE


def _from_first(step: RowStep, to: Dims, size: int | str | None) -> RowAxis:
    """Return the row axis after a Reshape of a value with rows on its first axis; ``size`` is their number."""
    lead = next((i for i, new in enumerate(to) if new != 1), None)
    if lead is None:
        return GONE
    # Rows come first on a merged axis, although -1 may include more than the rows.
    first = to[lead]
    if first == -1 or first in step.symbols or (first is not None and first == size):
        return RowAxis(lead)
    if first == 0 and lead == 0 and not step.rows().spread:
        return RowAxis(0)
    # If another size comes first, -1 is a part of each row.
    return RowAxis(to.index(-1), spread=True) if isinstance(first, int) and first > 1 and -1 in to else GONE


def _flatten(step: RowStep) -> RowAxis:
    axis, cut = step.axis(), int_of(step.node, "axis", 1)
    if axis != 0 or cut < 0:
        return GONE
    return RowAxis(0 if cut else 1)


def _unsqueeze(step: RowStep) -> RowAxis:
    axis, rank, axes = step.axis(), step.rank_out(), step.axes(1)
    if axis is None or rank is None or not axes:
        return GONE
    new = {a % rank for a in axes}
    return RowAxis([i for i in range(rank) if i not in new][axis])


def _squeeze(step: RowStep) -> RowAxis:
    axis, rank, axes = step.axis(), step.rank(), step.axes(1)
    if axis is None or rank is None or not axes:
        return GONE
    gone = {a % rank for a in axes}
    return GONE if axis in gone else RowAxis(axis - sum(a < axis for a in gone))


def _along(step: RowStep) -> RowAxis:
    """Return the unchanged row axis of a Concat or Split along another axis."""
    axes = {rows.axis for rows in step.inputs if rows.depends_on_rows}
    if len(axes) != 1 or None in axes:
        return GONE
    rank = next(step.rank(i) for i, rows in enumerate(step.inputs) if rows.depends_on_rows)
    axis = axes.pop()
    return GONE if rank is None or int_of(step.node, "axis", 0) % rank == axis else RowAxis(axis)


def _slice(step: RowStep) -> RowAxis:
    axis, rank, axes = step.axis(), step.rank(), step.axes(3)
    if axis is None or rank is None or axes == []:
        return GONE
    cut = range(rank) if axes is None else [a % rank for a in axes]
    return GONE if axis in cut else RowAxis(axis)


def _expand(step: RowStep) -> RowAxis:
    axis, rank, rank_out = step.axis(), step.rank(), step.rank_out()
    return GONE if axis is None or rank is None or rank_out is None else RowAxis(axis + rank_out - rank)


def _shared_range(step: RowStep) -> RowAxis | list[RowAxis]:
    """Return the row axes of the quantized values, the scale and the zero point, which all rows share."""
    axis = step.axis()
    return [GONE if axis is None else RowAxis(axis), RowAxis(), RowAxis()]


_SAME_AXES = UNARY | op_set("PRelu Trilu")
_BATCH_FIRST = op_set(
    "AffineGrid ArrayFeatureExtractor Binarizer CastMap CategoryMapper CenterCropPad Col2Im DeformConv "
    "EmbedLayerNormalization FeatureVectorizer GridSample Imputer LabelEncoder LinearClassifier "
    "LinearRegressor MaxUnpool Multinomial Normalizer OneHotEncoder RotaryEmbedding "
    "SVMClassifier SVMRegressor STFT Scaler SpaceToDepth TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor "
    "ZipMap"
)
ELEMENTWISE = _SAME_AXES | BROADCASTING
"""Operators that read one element of each input at a time."""
HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(_SAME_AXES, _same),
    **dict.fromkeys(BROADCASTING, _broadcast),
    **dict.fromkeys(_BATCH_FIRST, _first_alone),
    **dict.fromkeys(op_set("Concat QLinearConcat Split"), _along),
    "DynamicQuantizeLinear": _shared_range,
    "OneHot": _one_hot,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Slice": _slice,
    "Expand": _expand,
}
