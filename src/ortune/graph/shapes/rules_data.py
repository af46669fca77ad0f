"""Shape rules for operators that only move, select or describe data."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortune.graph.attributes import int_of, ints_of, tensor_of
from ortune.graph.constants import stored
from ortune.graph.nodes import input_of
from ortune.graph.shapes.helpers import ONE, Handler, axes_of, broadcast
from ortune.graph.shapes.symbols import Dim, Size
from ortune.graph.shapes.walk import Shape, Walk, ceil_div, product


def _reshape(walk: Walk, node: ir.Node) -> Shape | None:
    x, target = walk.shape(input_of(node, 0)), walk.content(input_of(node, 1))
    content = walk.content(input_of(node, 0))
    if content is not None:
        walk.set_content(node.outputs[0], content)
    if target is None:
        old = ints_of(node, "shape")
        if old is None:
            rank = walk.shape(input_of(node, 1))
            return (
                (None,) * rank[0].add if rank and rank[0] is not None and rank[0].value is not None else None
            )
        target = tuple(Size((), d) for d in old)
    keep_zero = int_of(node, "allowzero", 0) == 0
    out: list[Dim] = []
    for i, dim in enumerate(target):
        # A 0 copies the input's axis.
        copied = keep_zero and dim == Size()
        out.append(dim if not copied else x[i] if x is not None and i < len(x) else None)
    free = [i for i, d in enumerate(out) if d == Size((), -1)]
    if len(free) > 1 or x is None:
        return tuple(None if d == Size((), -1) else d for d in out)
    total = product(x)
    rest = product(tuple(d for d in out if d != Size((), -1)))
    if total is None or rest is None or rest[0] == 0:
        return tuple(None if d == Size((), -1) else d for d in out)
    if not free:
        _same_count(walk, total, rest)
        return tuple(out)
    out[free[0]] = _missing(walk, total, rest)
    return tuple(out)


def _same_count(walk: Walk, a: tuple[int, tuple[str, ...]], b: tuple[int, tuple[str, ...]]) -> None:
    if len(a[1]) + len(b[1]) == 1:  # one symbol on one side must account for the difference
        (symbol,) = a[1] + b[1]
        factor, number = (a[0], b[0]) if a[1] else (b[0], a[0])
        walk.equal(Size(((symbol, factor),)) if factor else Size(), Size((), number))
    elif a[1] == b[1] and a[0] != b[0]:
        walk.fail(f"{a[0]} elements cannot be reshaped to {b[0]}")


def _missing(walk: Walk, total: tuple[int, tuple[str, ...]], rest: tuple[int, tuple[str, ...]]) -> Dim:
    """Return the dimension written as -1, ``total / rest`` as (factor, symbols) products; None if unknown."""
    symbols = list(total[1])
    for symbol in rest[1]:
        if symbol not in symbols:
            return None
        symbols.remove(symbol)
    if len(symbols) > 1:
        return None
    if total[0] % rest[0]:
        if not symbols:
            walk.fail(f"{total[0]} elements cannot be reshaped in groups of {rest[0]}")
        return None
    # 6 x batch elements in rows of 3 are 2 x batch rows.
    return Size(((symbols[0], total[0] // rest[0]),)) if symbols else Size((), total[0] // rest[0])


def _flatten(walk: Walk, node: ir.Node) -> Shape | None:
    x = walk.shape(input_of(node, 0))
    if x is None:
        return None
    axis = int_of(node, "axis", 1)
    axis += len(x) if axis < 0 else 0
    return _joined(x[:axis]), _joined(x[axis:])


def _joined(dims: Shape) -> Dim:
    total = product(dims)
    if total is None or len(total[1]) > 1:
        return None
    return Size(((total[1][0], total[0]),)) if total[1] else Size((), total[0])


def _transpose(walk: Walk, node: ir.Node) -> Shape | None:
    x = walk.shape(input_of(node, 0))
    if x is None:
        return None
    order = ints_of(node, "perm") or list(range(len(x)))[::-1]
    return tuple(x[i] for i in order) if sorted(order) == list(range(len(x))) else None


def _unsqueeze(walk: Walk, node: ir.Node) -> Shape | None:
    content = walk.content(input_of(node, 0))
    walk.set_content(node.outputs[0], content)
    x, axes = walk.shape(input_of(node, 0)), axes_of(walk, node)
    if x is None or axes is None:
        return None
    rank = len(x) + len(axes)
    new = {a % rank for a in axes}
    rest = iter(x)
    return tuple(ONE if i in new else next(rest, None) for i in range(rank))


def _squeeze(walk: Walk, node: ir.Node) -> Shape | None:
    walk.set_content(node.outputs[0], walk.content(input_of(node, 0)))
    x, axes = walk.shape(input_of(node, 0)), axes_of(walk, node)
    if x is None or (axes is None and any(d is None or d.value is None for d in x)):
        return None
    if axes is None and input_of(node, 1) is not None:
        return None
    gone = {a % len(x) for a in axes} if axes is not None and x else {i for i, d in enumerate(x) if d == ONE}
    for i in gone:
        walk.equal(x[i], ONE)
    return tuple(d for i, d in enumerate(x) if i not in gone)


def _concat(walk: Walk, node: ir.Node) -> Shape | None:
    # Quantized: scale and zero point of the result, then each part with its own.
    joined = node.inputs[2::3] if node.op_type == "QLinearConcat" else node.inputs
    parts = [walk.content(v) for v in joined]
    if all(p is not None for p in parts):
        walk.set_content(node.outputs[0], tuple(d for p in parts if p is not None for d in p))
    shapes = [walk.shape(v) for v in joined]
    known_shapes = [s for s in shapes if s is not None]
    if (
        not known_shapes
        or len(known_shapes) != len(shapes)
        or len({len(s) for s in known_shapes}) != 1
        or not known_shapes[0]
    ):
        return None
    axis = int_of(node, "axis", 0) % len(known_shapes[0])
    out: list[Dim] = []
    for i, dims in enumerate(zip(*known_shapes, strict=True)):
        if i != axis:
            same: Dim = dims[0]
            for dim in dims[1:]:
                same = walk.equal(same, dim)
            out.append(same)
            continue
        total: Dim = Size()
        for dim in dims:
            total = None if total is None or dim is None else total.plus(dim)
        out.append(total)
    return tuple(out)


def _split(walk: Walk, node: ir.Node) -> Sequence[Shape | None] | None:
    x = walk.shape(input_of(node, 0))
    if not x:
        return None
    axis = int_of(node, "axis", 0) % len(x)
    parts = ints_of(node, "split") or walk.numbers(input_of(node, 1))
    n, whole = len(node.outputs), x[axis]
    sizes: list[Dim]
    if parts is None and input_of(node, 1) is None and whole is not None and whole.value is not None:
        # All of one size, except a smaller last part.
        chunk = ceil_div(whole.value, n)
        sizes = [Size((), max(0, min(chunk, whole.value - i * chunk))) for i in range(n)]
    elif parts is None and input_of(node, 1) is None and whole is not None:
        sizes = [whole.over(n)] * n
    elif parts is not None and len(parts) == len(node.outputs):
        walk.equal(x[axis], Size((), sum(parts)))
        sizes = [Size((), p) for p in parts]
    else:
        sizes = [None] * len(node.outputs)
    return [(*x[:axis], size, *x[axis + 1 :]) for size in sizes]


def _slice(walk: Walk, node: ir.Node) -> Shape | None:
    x = walk.shape(input_of(node, 0))
    starts, ends = _slice_bound(walk, node, "starts", 1), _slice_bound(walk, node, "ends", 2)
    if x is None or starts is None or ends is None:
        return None if x is None else (None,) * len(x)
    listed = ints_of(node, "axes") or walk.numbers(input_of(node, 3))
    axes = listed if listed is not None else list(range(len(starts)))
    steps = walk.numbers(input_of(node, 4)) if input_of(node, 4) is not None else [1] * len(starts)
    out = list(x)
    for i, axis in enumerate(axes[: len(starts)]):
        at, step = axis % len(x) if x else 0, steps[i] if steps is not None and i < len(steps) else None
        out[at] = _slice_dim(walk, x[at], starts[i], ends[i], step)
    content = walk.content(input_of(node, 0))
    # Tracked contents are lists of sizes, so they have one axis.
    if content is not None and len(starts) == 1 and steps == [1]:
        first, last = starts[0], ends[0]
        if first is not None and last is not None and first.value is not None and last.value is not None:
            walk.set_content(node.outputs[0], content[first.value : last.value])
    return tuple(out)


def _slice_bound(walk: Walk, node: ir.Node, name: str, position: int) -> Shape | None:
    old = ints_of(node, name)
    return tuple(Size((), v) for v in old) if old is not None else walk.content(input_of(node, position))


def _slice_dim(walk: Walk, dim: Dim, start: Dim, end: Dim, step: int | None) -> Dim:
    if dim is None or start is None or end is None or step is None or step < 1:
        return None
    # Exporters write "to the end" as a number near the maximum of its type.
    far = end.value is not None and end.value > 2**31 - 2
    last = dim if far else (dim.plus(end) if end.value is not None and end.value < 0 else end)
    first = dim.plus(start) if start.value is not None and start.value < 0 else start
    if dim.value is not None and first.value is not None and last.value is not None:
        first_n, last_n = max(0, min(first.value, dim.value)), max(0, min(last.value, dim.value))
        return Size((), max(0, ceil_div(last_n - first_n, step)))
    if step != 1:
        return None
    if dim.value is not None and last.value is None and not walk.soft:
        walk.limits.append((last, dim.value))  # a symbolic end in a table of fixed size must not exceed it
    elif dim.value is None and not far and last.value is not None and end.value == last.value:
        return None  # a fixed end on a free dimension is min(dim, end), which is not a linear expression
    return last.plus(first, -1)


def _gather(walk: Walk, node: ir.Node) -> Shape | None:
    data, indices = input_of(node, 0), input_of(node, 1)
    axis = int_of(node, "axis", 0)
    content, at = walk.content(data), walk.numbers(indices)
    if content is not None and at is not None and all(-len(content) <= i < len(content) for i in at):
        walk.set_content(node.outputs[0], tuple(content[i] for i in at))
    walk.index(data, axis, indices)
    x, i = walk.shape(data), walk.shape(indices)
    if x is None or i is None or not -len(x) <= axis < len(x):
        return None
    axis %= len(x)
    size = x[axis]
    if at and size is not None and size.value is not None and max(at) >= size.value:
        walk.fail(f"index {max(at)} is outside {size.value}")
    return (*x[:axis], *i, *x[axis + 1 :])


def _gather_elements(walk: Walk, node: ir.Node) -> Shape | None:
    walk.index(input_of(node, 0), int_of(node, "axis", 0), input_of(node, 1))
    return walk.shape(input_of(node, 1))


def _one_hot(walk: Walk, node: ir.Node) -> Shape | None:
    depth = walk.constant(input_of(node, 1))
    indices = input_of(node, 0)
    shape = walk.shape(indices)
    if depth is None or depth.size != 1 or indices is None:
        return None
    rows = int(depth.ravel()[0])
    walk.index_rows(rows, indices)
    if shape is None or int_of(node, "axis", -1) != -1:
        return None
    return (*shape, Size((), rows))


def _shape_of(walk: Walk, node: ir.Node) -> Shape | None:
    x = walk.shape(input_of(node, 0))
    if x is None:
        return (None,)
    part = x[int_of(node, "start", 0) : int_of(node, "end", len(x))]
    walk.set_content(node.outputs[0], part)
    return (Size((), len(part)),)


def _constant(walk: Walk, node: ir.Node) -> Shape | None:
    tensor = stored(node.outputs[0])
    return None if tensor is None else tuple(Size((), int(d)) for d in tensor.shape.numpy())


def _expand(walk: Walk, node: ir.Node) -> Shape | None:
    x, target = walk.shape(input_of(node, 0)), walk.content(input_of(node, 1))
    return None if x is None or target is None else broadcast(walk, x, target)


def _constant_of_shape(walk: Walk, node: ir.Node) -> Shape | None:
    shape = walk.content(input_of(node, 0))
    fill = tensor_of(node, "value")
    if shape is not None and len(shape) == 1 and shape[0] is not None and shape[0].value is not None:
        number = 0 if fill is None else float(fill.numpy().ravel()[0])
        if number == int(number) and 0 <= shape[0].add <= 64:
            walk.set_content(node.outputs[0], (Size((), int(number)),) * shape[0].add)
    return shape


def _range(walk: Walk, node: ir.Node) -> Shape | None:
    start, limit, step = (walk.content(input_of(node, i)) for i in range(3))
    if not limit or limit[0] is None or not start or start[0] is None or not step or step[0] != ONE:
        return (None,)
    walk.uppers[node.outputs[0]] = limit[0]
    return (limit[0].plus(start[0], -1),)


def _pad(walk: Walk, node: ir.Node) -> Shape | None:
    x = walk.shape(input_of(node, 0))
    pads = ints_of(node, "pads") or walk.numbers(input_of(node, 1))
    # With a separate axes input, pads are not evaluated: only the rank is known.
    if x is None or pads is None or len(pads) != 2 * len(x) or input_of(node, 3) is not None:
        return None if x is None else (None,) * len(x)
    return tuple(None if d is None else d.shift(pads[i] + pads[i + len(x)]) for i, d in enumerate(x))


def _resize(walk: Walk, node: ir.Node) -> Shape | None:
    x = walk.shape(input_of(node, 0))
    if x is None:
        return None
    sizes = walk.content(input_of(node, 3))
    if sizes and len(sizes) == len(x):
        return sizes
    # Upsample, and Resize before opset 11, have scales as their second input; later it is the third.
    scales = walk.constant(input_of(node, 1 if node.op_type == "Upsample" or len(node.inputs) == 2 else 2))
    if scales is None or scales.size != len(x):
        return (None,) * len(x)
    out: list[Dim] = []
    for dim, scale in zip(x, scales.ravel().tolist(), strict=True):
        if dim is None or (dim.value is None and scale != int(scale)):
            out.append(None)
        else:
            out.append(Size((), int(dim.value * scale)) if dim.value is not None else dim.times(int(scale)))
    return tuple(out)


def _tile(walk: Walk, node: ir.Node) -> Shape | None:
    x, repeats = walk.shape(input_of(node, 0)), walk.numbers(input_of(node, 1))
    if x is None or repeats is None or len(repeats) != len(x):
        return None if x is None else (None,) * len(x)
    return tuple(None if d is None else d.times(r) for d, r in zip(x, repeats, strict=True))


def _depth_to_space(walk: Walk, node: ir.Node) -> Shape | None:
    x, block = walk.shape(input_of(node, 0)), int_of(node, "blocksize", 1)
    if x is None or len(x) != 4 or any(d is None for d in x):
        return None
    n, c, h, w = (d for d in x if d is not None)
    return n, c.over(block * block), h.times(block), w.times(block)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    **dict.fromkeys(("Concat", "QLinearConcat"), _concat),
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "OneHot": _one_hot,
    "Shape": _shape_of,
    "Constant": _constant,
    "Expand": _expand,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "Pad": _pad,
    "Tile": _tile,
    "DepthToSpace": _depth_to_space,
}
