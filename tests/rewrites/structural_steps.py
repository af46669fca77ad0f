"""Steps of random graphs that structural rewrites look for: what is constant, repeated, undone, or left over."""

from __future__ import annotations

import numpy as np
from growing_graph import GrowingGraph
from onnx import TensorProto, helper, numpy_helper


def axes_of(g: GrowingGraph, *axes: int) -> tuple[list[str], dict[str, object]]:
    """Axes as this opset wants them: further inputs, or attributes."""
    if g.opset >= 13:
        return [g.constant(np.array(axes, np.int64))], {}
    return [], {"axes": list(axes)}


def hidden(g: GrowingGraph, operator: str, inputs: list[str], **attributes: object) -> str:
    """A node whose output is no value that others pick."""
    name = f"h{len(g.nodes)}"
    g.nodes.append(
        helper.make_node(operator, inputs, [name], name=f"{operator}_{len(g.nodes)}", **attributes)
    )
    return name


def ints(g: GrowingGraph, *numbers: int) -> str:
    return g.constant(np.array(numbers, np.int64))


def computed_constant(g: GrowingGraph) -> None:
    """Arithmetic of constants, then with a value; sometimes more than a limit."""
    x = g.pick()
    shape = g.values[x]
    made = hidden(
        g, str(g.rng.choice(["Add", "Mul", "Sub"])), [g.constant(g.some(*shape)), g.constant(g.some(1))]
    )
    if g.rng.random() < 0.5:
        made = hidden(g, "Tanh", [made])
    if len(shape) > 1 and g.rng.random() < 0.5:
        order = list(g.rng.permutation(len(shape)))
        there = hidden(g, "Transpose", [made], perm=[int(k) for k in order])
        made = hidden(g, "Transpose", [there], perm=[int(k) for k in np.argsort(order)])
    g.add("Mul", [x, made], shape)


def size_of(g: GrowingGraph, x: str, axis: int) -> str:
    """One size of a value, as a list."""
    if g.rng.random() < 0.5 or g.opset < 10:
        number = hidden(g, "Gather", [hidden(g, "Shape", [x]), g.constant(np.array(axis, np.int64))], axis=0)
        more, attributes = axes_of(g, 0)
        return hidden(g, "Unsqueeze", [number, *more], **attributes)
    return hidden(g, "Slice", [hidden(g, "Shape", [x]), ints(g, axis), ints(g, axis + 1), ints(g, 0)])


def shape_arithmetic(g: GrowingGraph) -> None:
    """A Reshape by sizes of the value, or of another one, and numbers."""
    x = g.pick(2, 3, 4)
    if x is None:
        return
    shape = g.values[x]
    same = [name for name, other in g.values.items() if other[:1] == shape[:1]]
    source = same[int(g.rng.integers(len(same)))]
    rest = int(np.prod(shape[1:]))
    first = size_of(g, source, 0)
    if g.rng.random() < 0.5:
        g.add("Reshape", [x, hidden(g, "Concat", [first, ints(g, rest)], axis=0)], (shape[0], rest))
        return
    sizes = [
        size_of(g, x, axis) if g.rng.random() < 0.3 else ints(g, shape[axis]) for axis in range(1, len(shape))
    ]
    if g.rng.random() < 0.3:
        sizes[-1] = ints(g, -1)
    g.add("Reshape", [x, hidden(g, "Concat", [first, *sizes], axis=0)], shape)


def twice(g: GrowingGraph) -> None:
    """The same product twice: with one weight, or with two that are equal."""
    x = g.pick(2, 3)
    if x is None:
        return
    shape, weight = g.values[x], g.some(g.values[x][-1], 3)
    one = g.constant(weight)
    other = one if g.rng.random() < 0.4 else g.constant(weight)
    a = g.add("MatMul", [x, one], (*shape[:-1], 3))
    b = g.add("MatMul", [x, other], (*shape[:-1], 3))
    g.add("Add", [g.add("Relu", [a], (*shape[:-1], 3)), b], (*shape[:-1], 3))


def there_and_back(g: GrowingGraph) -> None:
    """Two nodes that undo each other, or are one."""
    x = g.pick()
    shape = g.values[x]
    kind = int(g.rng.integers(6))
    if kind == 0 and len(shape) > 1:
        one, other = ([int(k) for k in g.rng.permutation(len(shape))] for _ in range(2))
        if g.rng.random() < 0.4:
            other = [int(k) for k in np.argsort(one)]
        middle = g.add("Transpose", [x], tuple(shape[k] for k in one), perm=one)
        g.add("Transpose", [middle], tuple(shape[one[k]] for k in other), perm=other)
    elif kind == 1:
        axis = int(g.rng.integers(0, len(shape) + 1))
        more, attributes = axes_of(g, axis)
        middle = hidden(g, "Unsqueeze", [x, *more], **attributes)
        more, attributes = axes_of(g, axis if g.rng.random() < 0.7 or g.opset < 11 else axis - len(shape) - 1)
        g.add("Squeeze", [middle, *more], shape, **attributes)
    elif kind == 2:
        wide = hidden(g, "Cast", [x], to=TensorProto.DOUBLE)
        if g.rng.random() < 0.3:
            whole = hidden(g, "Cast", [wide], to=TensorProto.INT64)
            wide = hidden(g, "Cast", [whole], to=TensorProto.INT32)
        g.add("Cast", [wide], shape, to=TensorProto.FLOAT)
    elif kind == 3:
        total = int(np.prod(shape[1:]))
        flat = hidden(g, "Flatten", [x], axis=1)
        if g.rng.random() < 0.5:
            flat = hidden(g, "Reshape", [flat, ints(g, -1, total)])
        g.add("Reshape", [flat, ints(g, *shape)], shape)
    elif len(shape) > 1:
        axis = int(g.rng.integers(1, len(shape)))
        if kind == 4:
            names = [f"p{len(g.nodes)}_{k}" for k in range(2)]
            sizes = [1, shape[axis] - 1]
            if sizes[1] < 1:
                return
            given = [x, ints(g, *sizes)] if g.opset >= 13 else [x]
            attributes = {} if g.opset >= 13 else {"split": sizes}
            g.nodes.append(
                helper.make_node("Split", given, names, name=f"{names[0]}_split", axis=axis, **attributes)
            )
            order = names if g.rng.random() < 0.7 else names[::-1]
            g.add("Concat", order, shape, axis=axis if g.opset < 11 else axis - len(shape))
        else:
            joined = hidden(g, "Concat", [x, g.add("Relu", [x], shape)], axis=axis)
            names = [f"q{len(g.nodes)}_{k}" for k in range(2)]
            given = [joined, ints(g, shape[axis], shape[axis])] if g.opset >= 13 else [joined]
            g.nodes.append(helper.make_node("Split", given, names, name=f"{names[0]}_split", axis=axis))
            g.add("Add", names, shape)


def joined_in_steps(g: GrowingGraph) -> None:
    """A Concat of a Concat, along one axis or two; the inner one is sometimes read by others too."""
    x = g.pick(2, 3, 4)
    if x is None:
        return
    shape = g.values[x]
    axis, other = (int(k) for k in g.rng.integers(1, len(shape), size=2))
    two = tuple(2 * size if k == axis else size for k, size in enumerate(shape))
    inner = hidden(g, "Concat", [x, g.add("Relu", [x], shape)], axis=axis)
    if g.rng.random() < 0.3:
        g.values[inner] = two
    if g.rng.random() < 0.7:
        joined = tuple(3 * size if k == axis else size for k, size in enumerate(shape))
        order = [inner, x] if g.rng.random() < 0.5 else [x, inner]
        g.add("Concat", order, joined, axis=axis if g.opset < 11 else axis - len(shape))
    else:
        joined = tuple(2 * size if k == other else size for k, size in enumerate(two))
        g.add("Concat", [inner, g.add("Tanh", [inner], two)], joined, axis=other)


def nothing(g: GrowingGraph) -> None:
    """A node that changes nothing."""
    x = g.pick()
    shape = g.values[x]
    kind = int(g.rng.integers(7))
    if kind == 0:
        g.add("Dropout", [x], shape, **({"ratio": 0.5} if g.opset < 12 else {}))
    elif kind == 1:
        operator, value = [("Mul", 1.0), ("Add", 0.0), ("Div", 1.0), ("Sub", 0.0), ("Pow", 1.0)][
            int(g.rng.integers(5))
        ]
        g.add(operator, [x, g.number(value, len(shape))], shape)
    elif kind == 2:
        g.add("Cast", [x], shape, to=TensorProto.FLOAT)
    elif kind == 3:
        g.add("Transpose", [x], shape, perm=list(range(len(shape))))
    elif kind == 4:
        sizes = [0 if g.rng.random() < 0.5 else size for size in shape]
        g.add("Reshape", [x, ints(g, *sizes)], shape)
    elif kind == 5 and g.opset >= 10:
        g.add("Slice", [x, ints(g, 0), ints(g, 2**62), ints(g, len(shape) - 1)], shape)
    else:
        g.add("Concat", [x], shape, axis=0)


def branch(g: GrowingGraph) -> None:
    """An If whose condition is a constant, or depends on a size."""
    x = g.pick()
    shape = g.values[x]
    if g.rng.random() < 0.5:
        condition = g.constant(np.array(bool(g.rng.random() < 0.5)))
    else:
        axis = int(g.rng.integers(len(shape)))
        number = hidden(g, "Gather", [hidden(g, "Shape", [x]), g.constant(np.array(axis, np.int64))], axis=0)
        wanted = g.constant(np.array(shape[axis] + int(g.rng.integers(2)), np.int64))
        condition = hidden(g, "Equal", [number, wanted])
    bodies = []
    for operator in ("Relu", "Neg"):
        name = f"b{len(g.nodes)}_{operator}"
        weight = numpy_helper.from_array(g.some(1), f"{name}_weight")
        nodes = [
            helper.make_node(operator, [x], [f"{name}_in"], name=name),
            helper.make_node("Mul", [f"{name}_in", f"{name}_weight"], [f"{name}_out"], name=f"{name}_mul"),
        ]
        out = helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, None)
        bodies.append(helper.make_graph(nodes, name, [], [out], [weight]))
    g.add("If", [condition], shape, then_branch=bodies[0], else_branch=bodies[1])


def rounds(g: GrowingGraph) -> None:
    """A Loop of a few rounds, that may gather what it makes."""
    x = g.pick()
    shape = g.values[x]
    count, name = int(g.rng.integers(1, 5)), f"l{len(g.nodes)}"
    gathers = bool(g.rng.random() < 0.5)
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Cast", [f"{name}_i"], [f"{name}_f"], name=f"{name}_cast", to=TensorProto.FLOAT),
        helper.make_node("Add", [f"{name}_s", f"{name}_f"], [f"{name}_a"], name=f"{name}_add"),
        helper.make_node("Mul", [f"{name}_a", x], [f"{name}_m"], name=f"{name}_mul"),
        helper.make_node("Tanh", [f"{name}_m"], [f"{name}_t"], name=f"{name}_tanh"),
        helper.make_node("Identity", [f"{name}_c"], [f"{name}_on"], name=f"{name}_go_on"),
    ]
    outputs = [info(f"{name}_on", TensorProto.BOOL, []), info(f"{name}_t", TensorProto.FLOAT, None)]
    if gathers:
        nodes.append(helper.make_node("Neg", [f"{name}_a"], [f"{name}_n"], name=f"{name}_neg"))
        outputs.append(info(f"{name}_n", TensorProto.FLOAT, None))
    body = helper.make_graph(
        nodes,
        name,
        [
            info(f"{name}_i", TensorProto.INT64, []),
            info(f"{name}_c", TensorProto.BOOL, []),
            info(f"{name}_s", TensorProto.FLOAT, None),
        ],
        outputs,
    )
    trips, on = g.constant(np.array(count, np.int64)), g.constant(np.array(True))
    last = f"{name}_last"
    names = [last, f"{name}_all"] if gathers else [last]
    g.nodes.append(helper.make_node("Loop", [trips, on, x], names, name=name, body=body))
    g.values[last] = shape
    if gathers:
        g.values[names[1]] = (count, *shape)


def einsum(g: GrowingGraph) -> None:
    """A product of matrices as an equation."""
    x = g.pick(2, 3)
    if (
        x is None or g.opset < 12 or 0 in g.values[x]
    ):  # of nothing, ONNX Runtime 1.32 divides by zero and dies
        return
    shape = g.values[x]
    if len(shape) == 2:
        equation = str(g.rng.choice(["ij,jk->ik", "ij,kj->ki", "ij,jk -> ki"]))
        weight = g.some(4, shape[1]) if ",k" in equation else g.some(shape[1], 4)
        made = (4, shape[0]) if equation[-2:] == "ki" else (shape[0], 4)
        g.add("Einsum", [x, g.constant(weight)], made, equation=equation)
    elif g.rng.random() < 0.5:
        g.add("Einsum", [x, g.constant(g.some(shape[2], 3))], (*shape[:2], 3), equation="bij,jk->bik")
    else:
        g.add("Einsum", [x, x], (shape[0], shape[1], shape[1]), equation="bij,bkj->bik")


def left_over(g: GrowingGraph) -> None:
    """Nodes and a weight that nobody reads."""
    x = g.pick()
    hidden(g, "Neg", [hidden(g, "Mul", [x, g.constant(g.some(1))])])


def same_input(g: GrowingGraph) -> None:
    """Several products of one value, often of one row."""
    x = g.pick(2, 3)
    if x is None:
        return
    shape = g.values[x]
    if g.rng.random() < 0.6:
        size = int(np.prod(shape))
        x, shape = g.add("Reshape", [x, ints(g, 1, size)], (1, size)), (1, size)
    for outs in g.rng.integers(1, 5, size=2):
        made = g.add("MatMul", [x, g.constant(g.some(shape[-1], int(outs)))], (*shape[:-1], int(outs)))
        if g.rng.random() < 0.4:
            g.add("Relu", [made], g.values[made])


def padded(g: GrowingGraph) -> None:
    """A Pad before a convolution, that may pad with something else, or something else."""
    x = g.pick(4)
    if x is None:
        return
    n, c, height, width = g.values[x]
    sizes = [
        0,
        0,
        *(int(k) for k in g.rng.integers(0, 3, size=2)),
        0,
        0,
        *(int(k) for k in g.rng.integers(0, 3, size=2)),
    ]
    value = 0.0 if g.rng.random() < 0.8 else 0.5
    if g.opset < 11:
        made = hidden(g, "Pad", [x], pads=sizes, value=value)
    else:
        made = hidden(g, "Pad", [x, ints(g, *sizes), g.constant(np.float32(value))])
        if g.rng.random() < 0.2:
            made = hidden(g, "Pad", [made, ints(g, 0, 0, 1, 0, 0, 0, 0, 2)])
            sizes[2], sizes[7] = sizes[2] + 1, sizes[7] + 2
    height, width = height + sizes[2] + sizes[6], width + sizes[3] + sizes[7]
    kernel = [min(2, height), min(2, width)]
    weight = g.constant(g.some(2, c, *kernel))
    g.add("Conv", [made, weight], (n, 2, height - kernel[0] + 1, width - kernel[1] + 1))
    if g.rng.random() < 0.3:
        g.add("Relu", [made], (n, c, height, width))


def meeting(g: GrowingGraph) -> None:
    """Transposes, mostly alike, whose results meet behind other operators; sometimes others read within."""
    x = g.pick(2, 3, 4)
    if x is None:
        return
    shape = g.values[x]
    order = [0, *(1 + int(k) for k in g.rng.permutation(len(shape) - 1))]  # the first axis may have a name
    after = tuple(shape[k] for k in order)
    ways = []
    for operator in ("Tanh", "Sigmoid"):
        source = g.add(operator, [x], shape)
        other = order if g.rng.random() < 0.9 else list(range(len(shape)))
        if other != order and shape != after:
            return
        way = hidden(g, "Transpose", [source], perm=other)
        kind = int(g.rng.integers(6))
        axis = int(g.rng.integers(-len(shape), len(shape)))
        if kind == 0:
            way = hidden(g, "Mul", [way, g.constant(g.some(*after[int(g.rng.integers(len(after))) :]))])
        elif kind == 1:
            way = hidden(g, "Neg", [way])
        elif kind == 2 and g.opset >= 13:
            way = hidden(g, "Softmax", [way], axis=axis)
        elif kind == 3 and g.opset >= 11:
            pads = [int(k) for k in g.rng.integers(0, 3, size=2 * len(shape))]
            way = hidden(g, "Pad", [way, ints(g, *pads)])
            ends = [int(pads[k] + after[k]) for k in range(len(after))]
            axes = list(range(-len(after), 0))
            way = hidden(g, "Slice", [way, ints(g, *pads[: len(after)]), ints(g, *ends), ints(g, *axes)])
        elif kind == 4:
            way = hidden(g, "Mul", [way, hidden(g, "ReduceMean", [way], axes=[axis], keepdims=1)])
        elif kind == 5:
            place = int(g.rng.integers(0, len(shape) + 1))
            more, attributes = axes_of(g, place)
            way = hidden(g, "Exp", [hidden(g, "Unsqueeze", [way, *more], **attributes)])
            if g.rng.random() < 0.5:
                more, attributes = axes_of(g, place)
                way = hidden(g, "Squeeze", [way, *more], **attributes)
            else:
                way = hidden(g, "Reshape", [way, ints(g, *after)])
        if g.rng.random() < 0.1:
            g.values[way] = after
        ways.append(way)
    axis = int(g.rng.integers(1, len(shape)))
    last = float(g.rng.random())
    if last < 0.5:
        g.add(str(g.rng.choice(["Add", "Mul", "Sub"])), ways, after)
    elif last < 0.75:
        joined = tuple(2 * size if k == axis else size for k, size in enumerate(after))
        g.add("Concat", ways, joined, axis=axis)
    else:
        left = tuple(size for k, size in enumerate(after) if k != axis)
        g.add("ReduceMean", [hidden(g, "Neg", [ways[0]])], left, axes=[axis], keepdims=0)


STEPS = (
    computed_constant,
    shape_arithmetic,
    twice,
    there_and_back,
    there_and_back,
    nothing,
    nothing,
    branch,
    rounds,
    einsum,
    left_over,
    joined_in_steps,
    same_input,
    padded,
    meeting,
)
