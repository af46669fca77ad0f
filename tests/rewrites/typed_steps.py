"""Steps of random graphs in other types than float32: halves, doubles, integers; they end in outputs of their own.

They begin at the input, which no rewrite changes: a number that is rounded to another integer, or to another half, says
nothing of a rewrite.
"""

from __future__ import annotations

import numpy as np
from fused_forms import GELUS, LOG_SOFTMAXES, NORMS, RMS, SOFTMAXES
from growing_graph import GrowingGraph
from onnx import TensorProto
from structural_steps import axes_of, hidden, ints

HALF, SINGLE, DOUBLE, BRAIN = TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.BFLOAT16
WIDE = TensorProto.INT64
_ARRAYS = {HALF: np.float16, DOUBLE: np.float64}
_EDGES = (0, 1, -1, 2, 7, -100, 2**31 - 1, -(2**31), 2**31, 2**40)


class _Typed:
    """Makes the forms of exporters in another type; what lies within is used nowhere else."""

    def __init__(self, g: GrowingGraph, dtype: int) -> None:
        self.g, self.dtype = g, _ARRAYS[dtype]

    def op(self, operator: str, *inputs: str, **attributes: object) -> str:
        return hidden(self.g, operator, list(inputs), **attributes)

    def number(self, value: float) -> str:
        return str(self.g.constant(np.array(value, self.dtype)))

    def weight(self, array: np.ndarray) -> str:
        return str(self.g.constant(array if array.dtype.kind in "iu" else array.astype(self.dtype)))


def _moved(g: GrowingGraph, value: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """What only moves numbers about, and the shape then."""
    kind = int(g.rng.integers(5))
    if kind == 0:
        order = [int(k) for k in g.rng.permutation(len(shape))]
        return hidden(g, "Transpose", [value], perm=order), tuple(shape[k] for k in order)
    if kind == 1:
        rest = int(np.prod(shape[1:]))
        return hidden(g, "Reshape", [value, ints(g, shape[0], rest)]), (shape[0], rest)
    if kind == 2:
        more, attributes = axes_of(g, 0)
        return hidden(g, "Unsqueeze", [value, *more], **attributes), (1, *shape)
    if kind == 3 and g.opset >= 10 and shape[-1] > 1:
        cut = hidden(g, "Slice", [value, ints(g, 1), ints(g, 2**62), ints(g, len(shape) - 1)])
        return cut, (*shape[:-1], shape[-1] - 1)
    return hidden(g, "Identity", [value]), shape


def round_trip(g: GrowingGraph) -> None:
    """To a smaller type and back, of numbers that it holds."""
    shape = g.values["x"]
    value = hidden(g, "Floor", [hidden(g, "Mul", ["x", g.number(4.0, len(shape))])])
    wide, small = SINGLE, HALF if g.opset < 13 or g.rng.random() < 0.8 else BRAIN
    if g.rng.random() < 0.3:
        value, wide = hidden(g, "Cast", [value], to=DOUBLE), DOUBLE
        small = SINGLE if g.rng.random() < 0.5 else small
    value = hidden(g, "Cast", [value], to=small)
    for _ in range(int(g.rng.integers(0, 3)) if small != BRAIN else 0):
        value, shape = _moved(g, value, shape)
        if g.rng.random() < 0.08 and small == HALF:
            g.end(value, shape, HALF)
    back = wide if g.rng.random() < 0.85 else SINGLE
    value = hidden(g, "Cast", [value], to=back)
    if g.rng.random() < 0.6:
        g.end(value, shape, back)
    else:
        g.add("Cast", [value], shape, to=SINGLE)


def in_other_type(g: GrowingGraph) -> None:
    """Arithmetic, products and forms of exporters in float16 or float64, also of what is fed in it."""
    shape = g.values["x"]
    dtype = HALF if g.rng.random() < 0.6 else DOUBLE
    m = _Typed(g, dtype)
    fed = g.some(*shape).astype(m.dtype)
    value = g.feed(fed) if g.rng.random() < 0.3 else hidden(g, "Cast", ["x"], to=dtype)
    for _ in range(int(g.rng.integers(1, 5))):
        kind = int(g.rng.integers(8))
        if kind == 0:
            operator = str(g.rng.choice(["Relu", "Sigmoid", "Tanh", "Neg", "Identity"]))
            value = m.op(operator, value)
        elif kind in (1, 2):
            factor = g.some(*shape[-1:]) if g.rng.random() < 0.5 else g.some()
            pair = (value, m.weight(np.asarray(factor)))
            value = m.op(
                str(g.rng.choice(["Add", "Mul", "Sub"])), *(pair if g.rng.random() < 0.7 else pair[::-1])
            )
        elif kind == 3 and len(shape) > 1:
            outs = int(g.rng.integers(1, 5))
            value, shape = m.op("MatMul", value, m.weight(g.some(shape[-1], outs))), (*shape[:-1], outs)
        elif kind == 4:
            forms = GELUS if dtype == HALF else GELUS[-2:]  # no kernel of Erf is for doubles
            value = forms[int(g.rng.integers(len(forms)))](m, m.op("Tanh", value))
        elif kind == 5 and g.opset >= 13:
            forms = (*SOFTMAXES, *LOG_SOFTMAXES)
            value = forms[int(g.rng.integers(len(forms)))](m, m.op("Tanh", value), -1)
            if len(shape) != 2:  # one of the forms is of matrices
                value = m.op("Reshape", value, ints(g, *shape))
        elif kind == 6 and dtype == DOUBLE and shape[-1] >= 4 and len(shape) > 1:
            value = m.op("Tanh", value)
            if g.rng.random() < 0.5:
                value = NORMS[int(g.rng.integers(len(NORMS)))](m, value, -1, shape[-1], len(shape))
            else:
                value = RMS[int(g.rng.integers(len(RMS)))](m, value, shape[-1])
        else:
            value = m.op("Cast", m.op("Cast", value, to=SINGLE), to=dtype)
    g.end(value, shape, dtype)


def _whole(g: GrowingGraph) -> tuple[str, tuple[int, ...]]:
    """Integers that are bounded, and their shape: indices, or what a narrow type holds."""
    shape = g.values["x"]
    kind = int(g.rng.integers(3))
    if kind == 0:
        count, size = int(g.rng.integers(0, 4)), int(g.rng.integers(1, 5))
        index = g.feed(g.rng.integers(-size, size, (count,)))
        g.end(hidden(g, "Gather", [g.constant(g.some(size, 2)), index], axis=0), (count, 2), SINGLE)
        return index, (count,)
    if kind == 1:
        axis = int(g.rng.integers(-len(shape) if g.opset >= 11 else 0, len(shape)))
        operator = str(g.rng.choice(["ArgMax", "ArgMin"]))
        after = list(shape)
        after[axis] = 1
        return hidden(g, operator, ["x"], axis=axis, keepdims=1), tuple(after)
    narrow = [TensorProto.BOOL, TensorProto.INT8, TensorProto.INT32][int(g.rng.integers(3))]
    return hidden(g, "Cast", [hidden(g, "Cast", ["x"], to=narrow)], to=WIDE), shape


def _number(g: GrowingGraph) -> str:
    number = int(g.rng.choice(_EDGES)) if g.rng.random() < 0.4 else int(g.rng.integers(-9, 9))
    return str(g.constant(np.full((1,) * int(g.rng.integers(2)), number, np.int64)))


def integers(g: GrowingGraph) -> None:
    """Arithmetic and comparisons of 64-bit integers, near the ends of 32 bits too."""
    value, shape = _whole(g)
    for _ in range(int(g.rng.integers(1, 4))):
        kind = int(g.rng.integers(8))
        if kind < 3:
            pair = (value, _number(g))
            value = hidden(
                g,
                str(g.rng.choice(["Add", "Sub", "Mul"])),
                list(pair if g.rng.random() < 0.8 else pair[::-1]),
            )
        elif kind == 3 and g.opset >= 12:
            value = hidden(g, str(g.rng.choice(["Min", "Max"])), [value, _number(g)])
        elif kind == 4 and g.opset >= 12:
            low, high = sorted(int(n) for n in g.rng.integers(-20, 20, size=2))
            value = hidden(g, "Clip", [value, *(g.constant(np.array(n, np.int64)) for n in (low, high))])
        elif kind == 5 and g.opset >= 10:
            divisor = ints(g, int(g.rng.integers(1, 9)))
            value = hidden(g, str(g.rng.choice(["Mod", "Div"])), [value, divisor])
        elif kind == 6:
            value = hidden(g, str(g.rng.choice(["Neg", "Abs", "Sign"])), [value])
        else:
            operator = str(g.rng.choice(["Equal", "Less", "Greater"]))
            asked = hidden(g, operator, [value, _number(g)])
            value = hidden(g, "Where", [asked, value, _number(g)])
        shape = shape or (1,)
    last = int(g.rng.integers(4))
    if last == 0:
        g.end(hidden(g, "Cast", [value], to=SINGLE), shape, SINGLE)
    elif last == 1 and g.opset >= 10:
        index = hidden(g, "Mod", [value, ints(g, 4)])
        g.end(hidden(g, "Gather", [g.constant(g.some(4, 3)), index], axis=0), (*shape, 3), SINGLE)
    elif last == 2:
        g.end(hidden(g, "Less", [value, _number(g)]), shape, TensorProto.BOOL)
    else:
        g.end(value, shape, WIDE)


STEPS = (round_trip, in_other_type, in_other_type, integers, integers)
