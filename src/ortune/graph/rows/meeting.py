"""Operators that combine elements along an axis; along the row axis, they combine rows."""

from __future__ import annotations

from dataclasses import replace

from ortune.graph import equations
from ortune.graph.attributes import int_of, ints_of, text_of
from ortune.graph.constants import constant
from ortune.graph.model.graphs import op_set
from ortune.graph.model.operators import STANDARD
from ortune.graph.nodes import input_of
from ortune.graph.rows.state import GONE, Handler, RowAxis, RowStep


def _over(step: RowStep, axes: list[int], *, keeps: bool = True) -> RowAxis:
    """Return the row axis after normalizing (``keeps``) or reducing over ``axes``."""
    axis, rank = step.axis(), step.rank()
    if axis is None or rank is None:
        return GONE
    over = {a % rank for a in axes}
    spread = step.rows().spread
    if axis in over or (spread and min(over) < axis):
        return RowAxis(axis if keeps else None, meets=True, spread=spread)
    return RowAxis(axis if keeps else axis - sum(a < axis for a in over), spread=spread)


def _softmax(step: RowStep) -> RowAxis:
    rank, old = step.rank(), (step.node.version or 13) < 13
    axis = int_of(step.node, "axis", 1 if old else -1)
    # Before opset 13, all axes from the given one on were normalized together.
    return GONE if rank is None else _over(step, list(range(axis % rank, rank)) if old else [axis])


def _from_axis(step: RowStep) -> RowAxis:
    rank = step.rank()
    axis = int_of(step.node, "axis", -1)
    return GONE if rank is None else _over(step, list(range(axis % rank, rank)))


def _one_axis(step: RowStep) -> RowAxis:
    return _over(step, [int_of(step.node, "axis", -1)])


def _moments(step: RowStep) -> RowAxis:
    return _over(step, ints_of(step.node, "axes") or [0, 2, 3])


def _image(step: RowStep) -> RowAxis:
    """Return the row axis after statistics over the positions of each channel, or group of channels."""
    rank = step.rank()
    if rank is None or int_of(step.node, "channels_last", 0):
        return RowAxis(0) if step.axis() == 0 else GONE
    first = 1 if step.node.op_type == "GroupNormalization" else 2
    return _over(step, list(range(first, rank)))


def _image_alone(step: RowStep) -> RowAxis:
    found = _image(step)
    # The reduced axis has one element, which all rows share.
    return replace(found, axis=None) if found.meets else found


def _cumsum(step: RowStep) -> RowAxis:
    axis = constant(input_of(step.node, 1))
    return GONE if axis is None else _over(step, [int(axis.reshape(-1)[0])])


def _reduce(step: RowStep) -> RowAxis:
    rank = step.rank()
    axes = step.axes(1)
    if rank is None or axes == []:
        return GONE
    if axes is None and int_of(step.node, "noop_with_empty_axes", 0):
        return GONE if step.axis() is None else RowAxis(step.axis())
    found = _over(
        step, list(range(rank)) if axes is None else axes, keeps=bool(int_of(step.node, "keepdims", 1))
    )
    # The reduced axis has one element, which all rows share.
    return replace(found, axis=None) if found.meets else found


def _arg(step: RowStep) -> RowAxis:
    found = _over(step, [int_of(step.node, "axis", 0)], keeps=bool(int_of(step.node, "keepdims", 1)))
    return GONE if found.meets else found


def _top_k(step: RowStep) -> RowAxis:
    found = _one_axis(step)
    return GONE if found.meets else found


def _product(a: int, b: int, turned: tuple[str, str] | None = None) -> Handler:
    """Return the handler for a matrix product of the inputs at ``a`` and ``b``; ``turned`` are transpose attributes."""

    def found(step: RowStep) -> RowAxis:
        rank_a, rank_b = step.rank(a) or 0, step.rank(b) or 0
        if min(rank_a, rank_b) < 2:
            return GONE
        first, second = step.rows(a), step.rows(b)
        rank, axes = max(rank_a, rank_b), set[int]()
        flips = [bool(turned and int_of(step.node, name, 0)) for name in turned or ("", "")]
        # The last axis of A and the second to last of B are summed over.
        for rows, own_rank, summed in (
            (first, rank_a, rank_a - (2 if flips[0] else 1)),
            (second, rank_b, rank_b - (1 if flips[1] else 2)),
        ):
            if not rows.depends_on_rows:
                continue
            if rows.axis is None:
                return GONE
            if rows.axis == summed:
                return RowAxis(None, meets=True)
            lead = rows.axis < own_rank - 2
            axes.add(rows.axis + rank - own_rank if lead else rank - (2 if rows is first else 1))
        return RowAxis(axes.pop()) if len(axes) == 1 else GONE

    return found


def _einsum(step: RowStep) -> RowAxis:
    equation, ranks = text_of(step.node, "equation", ""), [step.rank(i) for i in range(len(step.inputs))]
    known = [rank for rank in ranks if rank is not None]
    indices = equations.operands(equation, known) if len(known) == len(ranks) else None
    if indices is None or any(rows.depends_on_rows and rows.axis is None for rows in step.inputs):
        return GONE
    of_rows = {
        own[rows.axis] for rows, own in zip(step.inputs, indices, strict=True) if rows.axis is not None
    }
    if len(of_rows) != 1:
        return GONE
    (index,), kept = of_rows, equations.result(equation, indices)
    return RowAxis(kept.index(index)) if index in kept else RowAxis(None, meets=True)


def _weights_alone(step: RowStep) -> RowAxis:
    """Return the row axis of a product with quantized weights, which sums over the last axis."""
    axis, rank = step.axis(), step.rank()
    if axis is None:
        return GONE
    return RowAxis(None, meets=True) if rank is not None and axis == rank - 1 else RowAxis(axis)


def _batch_statistics(step: RowStep) -> RowAxis:
    """Return the row axis of a BatchNormalization, which reads the whole batch in training mode only."""
    axis, rank = step.axis(), step.rank()
    if axis is None:
        return GONE
    if not int_of(step.node, "training_mode", 0):
        return RowAxis(axis, spread=step.rows().spread)
    return GONE if rank is None else _over(step, [a for a in range(rank) if a != 1])


def _skip_norm(step: RowStep) -> RowAxis:
    """Return the row axis of a sum that is normalized over its last axis."""
    rank, axes = step.rank(), {rows.axis for rows in step.inputs if rows.depends_on_rows}
    axis = axes.pop() if len(axes) == 1 else None
    if axis is None or (rank is None and axis > 0):
        return GONE
    return RowAxis(axis, meets=rank is not None and axis == rank - 1)


def _attention(step: RowStep) -> RowAxis | list[RowAxis]:
    """Return the row axis of an attention operator, which combines rows if they are taken for the steps of one row."""
    axis, rank, node = step.axis(), step.rank(), step.node
    if axis == 0:
        return RowAxis(0)
    # ONNX Runtime's own operators of these names compute the keys from the same input.
    packed = node.op_type == "QAttention" or (node.op_type == "Attention" and node.domain not in STANDARD)
    keys = axis if packed else step.axis(1)
    if axis is None or rank is None or axis != rank - 2 or keys != axis:
        return GONE
    return [RowAxis(axis, meets=True)]


def _fourier(step: RowStep) -> RowAxis:
    given, usual = constant(input_of(step.node, 2)), 1 if (step.node.version or 20) < 20 else -2
    named = int_of(step.node, "axis", usual)
    return _over(step, [named if given is None else int(given.reshape(-1)[0])])


def _recurrent(step: RowStep) -> RowAxis | list[RowAxis]:
    axis, first = step.axis(), int_of(step.node, "layout", 0) == 1
    if axis not in (0, 1):
        return GONE
    meets = axis == (1 if first else 0)
    if first:
        return [RowAxis(axis, meets), RowAxis(0, meets), RowAxis(0, meets)]
    # Without layout 1: [steps, directions, rows, features], then the last state of each row.
    return [RowAxis(0 if meets else 2, meets), *[RowAxis(None if meets else 1, meets)] * 2]


_REDUCES = op_set(
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
    "ReduceSumSquare"
)
_SOFTMAX = op_set("Softmax LogSoftmax Hardmax")
_NORMALISE = op_set("LayerNormalization RMSNormalization SimplifiedLayerNormalization")
_GLOBAL_POOLS = op_set("GlobalAveragePool GlobalLpPool GlobalMaxPool QLinearGlobalAveragePool")
_IMAGES = op_set("GroupNormalization InstanceNormalization")
NORMALISES = (
    _REDUCES
    | _SOFTMAX
    | _NORMALISE
    | _GLOBAL_POOLS
    | _IMAGES
    | op_set("BatchNormalization LpNormalization CumSum")
)
"""Operators that read all elements along some axes."""
_TURNED = ("transA", "transB")
HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(_REDUCES, _reduce),
    **dict.fromkeys(_SOFTMAX, _softmax),
    **dict.fromkeys(_NORMALISE, _from_axis),
    **dict.fromkeys(_IMAGES, _image),
    **dict.fromkeys(_GLOBAL_POOLS, _image_alone),
    **dict.fromkeys(op_set("ArgMax ArgMin"), _arg),
    **dict.fromkeys(op_set("LSTM GRU RNN DynamicQuantizeLSTM"), _recurrent),
    **dict.fromkeys(
        op_set("MatMul MatMulInteger MatMulIntegerToFloat DynamicQuantizeMatMul"), _product(0, 1)
    ),
    **dict.fromkeys(op_set("Gemm FusedGemm FusedMatMul"), _product(0, 1, _TURNED)),
    **dict.fromkeys(op_set("QLinearMatMul QGemm"), _product(0, 3, _TURNED)),
    **dict.fromkeys(op_set("MatMulNBits MatMulBnb4"), _weights_alone),
    **dict.fromkeys(op_set("SkipLayerNormalization SkipSimplifiedLayerNormalization"), _skip_norm),
    **dict.fromkeys(op_set("Attention GroupQueryAttention MultiHeadAttention QAttention"), _attention),
    "BatchNormalization": _batch_statistics,
    "DFT": _fourier,
    "Einsum": _einsum,
    "LpNormalization": _one_axis,
    "MeanVarianceNormalization": _moments,
    "CumSum": _cumsum,
    "TopK": _top_k,
}
