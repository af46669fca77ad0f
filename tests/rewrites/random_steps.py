"""Steps of which random graphs are made: what one of them adds to a graph that grows."""

from __future__ import annotations

import numpy as np
from form_steps import attention, gelu, instance_norm, layer_norm, one_hot, rms_norm, softmax, written_softmax
from growing_graph import GrowingGraph
from structural_steps import STEPS as STRUCTURAL_STEPS
from typed_steps import STEPS as TYPED_STEPS

SCALARS = (3.0, 6.0, 1.0, 0.5, 0.2, 1 / 6, 2.5, -1.0, 0.0)


def _with_constant(g: GrowingGraph) -> None:
    x = g.pick()
    assert x is not None
    shape = g.values[x]
    operator = str(g.rng.choice(["Add", "Sub", "Mul", "Div"]))
    kind = g.rng.random()
    if kind < 0.4:
        value = g.number(float(g.rng.choice(SCALARS[:-1])), len(shape))
    else:
        dims = [size if g.rng.random() < 0.5 else 1 for size in shape]
        if kind < 0.75 and len(dims) > 1:
            channel = 1 if g.rng.random() < 0.7 else len(shape) - 1
            dims = [size if axis == channel else 1 for axis, size in enumerate(shape)]
        cut = int(g.rng.integers(0, len(dims))) if g.rng.random() < 0.4 else 0
        array = g.some(*dims[cut:])
        value = g.constant(np.where(np.abs(array) < 0.05, 0.5, array).astype(np.float32))
    swapped = g.rng.random() < 0.3
    g.add(operator, [value, x] if swapped else [x, value], shape)


def _conv(g: GrowingGraph) -> None:
    x = g.pick(3, 4)
    if x is None:
        return
    n, c, *spatial = g.values[x]
    if 0 in (c, *spatial):
        return
    group = int(g.rng.choice([k for k in (1, 2, c) if c % k == 0]))
    outs = group * int(g.rng.integers(1, 4)) if g.rng.random() < 0.7 else c
    if outs % group or min(spatial) < 2 or len(spatial) > 2:
        return
    kernel = [int(g.rng.integers(1, 3)) for _ in spatial]
    padded = bool(g.rng.random() < 0.5)
    inputs = [x]
    attributes: dict[str, object] = {"group": group}
    if padded:
        attributes["pads"] = [k - 1 for k in kernel] + [0] * len(kernel)
    elif g.rng.random() < 0.2:
        attributes["auto_pad"] = "VALID"
    if g.rng.random() < 0.25:
        attributes.pop("pads", None)
        per_group = max(1, outs // group)
        inputs.append(g.constant(g.some(c, per_group, *kernel)))
        outs = per_group * group
        attributes.pop("auto_pad", None)
        shape = (n, outs, *[s + k - 1 for s, k in zip(spatial, kernel, strict=True)])
        operator = "ConvTranspose"
    else:
        inputs.append(g.constant(g.some(outs, c // group, *kernel)))
        shape = (n, outs, *[s if padded else s - k + 1 for s, k in zip(spatial, kernel, strict=True)])
        operator = "Conv"
    if g.rng.random() < 0.5:
        inputs.append(g.constant(g.some(outs)))
    g.add(operator, inputs, shape, **attributes)


def _matrix(g: GrowingGraph) -> None:
    x = g.pick(2, 3)
    if x is None:
        return
    shape = g.values[x]
    outs = int(g.rng.integers(1, 6))
    if len(shape) == 2 and g.rng.random() < 0.6:
        turned = int(g.rng.integers(2))
        inputs = [x, g.constant(g.some(outs, shape[1]) if turned else g.some(shape[1], outs))]
        if g.opset < 11 or g.rng.random() < 0.6:
            bias = [g.some(outs), g.some(1, outs), g.some(1), g.some(shape[0], outs)][int(g.rng.integers(4))]
            inputs.append(g.constant(bias))
        scaled = {"alpha": 0.5} if g.rng.random() < 0.2 else {}
        g.add("Gemm", inputs, (shape[0], outs), transB=turned, **scaled)
    else:
        g.add("MatMul", [x, g.constant(g.some(shape[-1], outs))], (*shape[:-1], outs))


def _batch_normalization(g: GrowingGraph) -> None:
    x = g.pick(2, 3, 4)
    if x is None:
        return
    c = g.values[x][1]
    numbers = [g.constant(g.some(c)) for _ in range(3)] + [g.constant(np.abs(g.some(c)) + 0.3)]
    g.add("BatchNormalization", [x, *numbers], g.values[x], epsilon=0.001)


def _unary(g: GrowingGraph) -> None:
    x = g.pick()
    assert x is not None
    g.add(str(g.rng.choice(["Relu", "Sigmoid", "Tanh", "Neg", "Identity"])), [x], g.values[x])


def _binary(g: GrowingGraph) -> None:
    x = g.pick()
    assert x is not None
    same = [name for name, shape in g.values.items() if shape == g.values[x]]
    g.add(str(g.rng.choice(["Add", "Mul"])), [x, same[int(g.rng.integers(len(same)))]], g.values[x])


def _between(g: GrowingGraph) -> None:
    """A scale or shift between two convolutions whose channels fit the widest block."""
    x = g.pick(4)
    if x is None:
        return
    n, c, height, width = g.values[x]
    kernel = {"kernel_shape": [1, 1]}
    g.add("Conv", [x, g.constant(g.some(16, c, 1, 1))], (n, 16, height, width), **kernel)
    for _ in range(int(g.rng.integers(1, 3))):
        _with_constant(g)
    y = list(g.values)[-1]
    if g.values[y] == (n, 16, height, width):
        weight = g.constant(g.some(16, 1, 3, 3))
        g.add("Conv", [y, weight], g.values[y], group=16, pads=[1, 1, 1, 1])


def _clip(g: GrowingGraph, x: str, low: float, high: float) -> str:
    shape = g.values[x]
    if g.opset < 11:
        return g.add("Clip", [x], shape, min=low, max=high)
    bounds = [g.constant(np.float32(low)), g.constant(np.float32(high))]
    return g.add("Clip", [x, *bounds], shape)


def _hard(g: GrowingGraph) -> None:
    """HardSwish or HardSigmoid as exporters write it, sometimes with one number that is not theirs."""
    x = g.pick()
    assert x is not None
    shape = g.values[x]
    top = float(g.rng.choice([6.0, 6.0, 6.0, 1.0, 4.0]))
    shift = float(g.rng.choice([3.0, 3.0, 0.5, 7.0]))
    inner = x
    if g.rng.random() < 0.3:
        inner = g.add("Mul", [x, g.number(float(g.rng.choice([0.2, 1.0, -0.5])), len(shape))], shape)
    added = g.add("Add", [inner, g.number(shift, len(shape))], shape)
    clipped = _clip(g, added, 0.0, top)
    by = top if g.rng.random() < 0.85 else 5.0
    division = ("Div", by) if g.rng.random() < 0.6 else ("Mul", 1 / by)
    form = int(g.rng.integers(4))
    number = g.number(division[1], len(shape))
    if form == 0:
        g.add(division[0], [g.add("Mul", [x, clipped], shape), number], shape)
    elif form == 1:
        g.add("Mul", [g.add(division[0], [clipped, number], shape), x], shape)
    elif form == 2:
        g.add("Mul", [g.add(division[0], [x, number], shape), clipped], shape)
    else:
        g.add(division[0], [clipped, number], shape)


def _joined(g: GrowingGraph) -> None:
    """Two values side by side along an axis, and the axes in another order."""
    x = g.pick(2, 3, 4)
    if x is None:
        return
    shape = list(g.values[x])
    axis = int(g.rng.integers(1, len(shape)))
    other = g.add("Relu", [x], g.values[x])
    shape[axis] *= 2
    both = g.add("Concat", [x, other], tuple(shape), axis=axis)
    order = [0, *(1 + g.rng.permutation(len(shape) - 1)).tolist()]
    g.add("Transpose", [both], tuple(shape[k] for k in order), perm=order)


RANDOM_STEPS = (
    _with_constant,
    _with_constant,
    _conv,
    _conv,
    _matrix,
    _batch_normalization,
    _unary,
    _binary,
    _hard,
    _hard,
    _between,
    gelu,
    layer_norm,
    one_hot,
    _joined,
    rms_norm,
    attention,
    softmax,
    written_softmax,
    instance_norm,
    *STRUCTURAL_STEPS,
    *TYPED_STEPS,
)
