"""Operators that read a window of positions, such as pools, or change the number of positions, such as Pad."""

from __future__ import annotations

from ortune.graph.attributes import int_of, ints_of, text_of
from ortune.graph.constants import constant
from ortune.graph.model.graphs import op_set
from ortune.graph.nodes import input_of
from ortune.graph.rows.state import GONE, Handler, RowAxis, RowStep

_CHANNELS = 1


def _first_position(step: RowStep) -> int:
    """Return the first axis of positions; the channels are before or after them."""
    return 1 if _channels_last(step) else 2


def _channels_last(step: RowStep) -> bool:
    return step.node.op_type.startswith("Nhwc") or bool(int_of(step.node, "channels_last", 0))


def _window(step: RowStep, axis: int, kernel: int, place: int) -> RowAxis:
    """Return the row axis after a window of ``kernel`` elements along it, the position axis of number ``place``."""
    stride, dilation = ((ints_of(step.node, name) or [])[place:] for name in ("strides", "dilations"))
    step_size = stride[0] if stride else 1
    reads = (kernel - 1) * (dilation[0] if dilation else 1) + 1
    if step.node.op_type == "ConvTranspose":  # each position becomes ``step_size`` ones, with overlaps beyond
        return RowAxis(axis, meets=reads > step_size)
    if reads == 1:
        return RowAxis(axis) if step_size == 1 else GONE
    # Windows that do not overlap combine parts of one row, if the axis holds more than the rows.
    if reads <= step_size and not step.holds_rows_alone():
        return GONE
    return RowAxis(axis, meets=True)


def _pool(step: RowStep) -> RowAxis:
    axis, rank, kernel = step.axis(), step.rank(), ints_of(step.node, "kernel_shape")
    if axis == 0:
        return RowAxis(0)
    if axis is None or rank is None or kernel is None:
        return GONE
    place = axis - _first_position(step)
    return _window(step, axis, kernel[place], place) if 0 <= place < len(kernel) else RowAxis(axis)


def _convolution(step: RowStep) -> RowAxis:
    axis = step.axis()
    if axis == 0:
        return RowAxis(0)
    position = 3 if step.node.op_type == "QLinearConv" else 1
    weight = step.values.sizes(input_of(step.node, position))
    if axis is None or weight is None or _channels_last(step):
        return GONE
    if step.rows(position).depends_on_rows:  # each row has its own kernel, on purpose
        return GONE
    if axis == _CHANNELS:
        turned = step.node.op_type == "ConvTranspose"
        alone = weight[0] == int_of(step.node, "group", 1) if turned else weight[1] == 1
        return RowAxis(axis) if alone else RowAxis(None, meets=True)
    kernel = weight[axis]
    # If rows are positions of one image, a kernel of size 1 sees only one of them.
    return GONE if kernel is None else _window(step, axis, kernel, axis - 2)


def _neighbouring_channels(step: RowStep) -> RowAxis:
    """Return the row axis of an LRN, which reads ``size`` channels around each element."""
    axis = step.axis()
    return (
        GONE if axis is None else RowAxis(axis, meets=axis == _CHANNELS and int_of(step.node, "size", 1) > 1)
    )


def _resize(step: RowStep) -> RowAxis:
    """Keep the row axis if its size stays; interpolation along it combines rows."""
    axis, rank = step.axis(), step.rank()
    if axis is None or rank is None:
        return GONE
    ratio = _ratio(step, axis, rank)
    if ratio == 1 or (ratio is None and axis == 0):
        return RowAxis(axis)
    nearest = text_of(step.node, "mode", "nearest") == "nearest"
    return GONE if ratio is None or nearest else RowAxis(axis, meets=True)


def _ratio(step: RowStep, axis: int, rank: int) -> float | None:
    """Return the ratio by which an axis grows; None if it is unknown."""
    node = step.node
    given = ints_of(node, "axes")
    axes = list(range(rank)) if given is None else [a % rank for a in given]
    if axis not in axes:
        return 1.0
    place = axes.index(axis)
    first = 1 if node.op_type == "Upsample" or (node.version or 13) < 11 else 2
    scales = constant(input_of(node, first))
    if scales is not None and scales.size > place:
        return float(scales.reshape(-1)[place])
    sizes = step.values.contents(input_of(node, 3)) if first == 2 else None
    dims = step.values.dims(input_of(node, 0))
    if sizes is None or dims is None or len(sizes) <= place or None in (sizes[place], dims[axis]):
        return None
    if sizes[place] == dims[axis]:
        return 1.0
    new, old = sizes[place], dims[axis]
    return new / old if isinstance(new, int) and isinstance(old, int) and old else None


def _pad(step: RowStep) -> RowAxis:
    axis, rank = step.axis(), step.rank()
    pads = _numbers(step, "pads", 1)
    if axis is None or rank is None or pads is None:
        return RowAxis(0) if axis == 0 else GONE
    padded = step.axes(3)
    if padded == []:
        return GONE
    axes = list(range(rank)) if padded is None else [a % rank for a in padded]
    if axis not in axes:
        return RowAxis(axis)
    place = axes.index(axis)
    return RowAxis(axis) if pads[place] == pads[place + len(axes)] == 0 else GONE


def _tile(step: RowStep) -> RowAxis:
    axis, times = step.axis(), _numbers(step, "repeats", 1)
    if axis is None or times is None:
        return RowAxis(0) if axis == 0 else GONE
    return RowAxis(axis) if times[axis] == 1 else GONE


def _depth_to_space(step: RowStep) -> RowAxis:
    axis = step.axis()
    # Each position becomes several ones next to each other.
    return GONE if axis is None or axis == _CHANNELS else RowAxis(axis)


def _numbers(step: RowStep, attribute: str, position: int) -> list[int] | None:
    """Return integers from an attribute, as in old opsets, or from an input; None if they are unknown."""
    named = ints_of(step.node, attribute)
    if named is not None:
        return named
    found = constant(input_of(step.node, position))
    return None if found is None else [int(n) for n in found.reshape(-1)]


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(op_set("AveragePool LpPool MaxPool NhwcMaxPool QLinearAveragePool"), _pool),
    **dict.fromkeys(op_set("Conv ConvTranspose ConvInteger QLinearConv FusedConv"), _convolution),
    **dict.fromkeys(op_set("Resize Upsample"), _resize),
    "LRN": _neighbouring_channels,
    "Pad": _pad,
    "Tile": _tile,
    "DepthToSpace": _depth_to_space,
}
