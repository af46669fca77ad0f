"""Steps of which random graphs are made: a graph that grows, and what one step adds to it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
from fused_forms import ATTENTIONS, GELUS, HEADS, INSTANCES, LOG_SOFTMAXES, NORMS, RMS, SOFTMAXES, WIDTH
from onnx import TensorProto, helper, numpy_helper
from structural_steps import STEPS as STRUCTURAL_STEPS
from typed_steps import STEPS as TYPED_STEPS

Feeds = dict[str, np.ndarray]
SCALARS = (3.0, 6.0, 1.0, 0.5, 0.2, 1 / 6, 2.5, -1.0, 0.0)


@dataclass(slots=True)
class GrowingGraph:
    """A graph that grows; values with their shapes, constants by name.

    What is fed beside ``x``, and outputs of any type that no other step picks, have names of their own.
    """

    rng: np.random.Generator
    nodes: list[onnx.NodeProto]
    weights: list[onnx.TensorProto]
    values: dict[str, tuple[int, ...]]
    opset: int
    in_nodes: bool
    fed: Feeds = field(default_factory=dict)
    ends: dict[str, tuple[tuple[int, ...], int]] = field(default_factory=dict)

    def add(self, operator: str, inputs: list[str], shape: tuple[int, ...], **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(operator, inputs, [name], name=f"{operator}_{len(self.nodes)}", **attributes)
        )
        self.values[name] = shape
        return name

    def constant(self, array: np.ndarray) -> str:
        name = f"k{len(self.weights) + len(self.nodes)}"
        tensor = numpy_helper.from_array(np.asarray(array, order="C"), name)
        if array.size > 1 and self.rng.random() < 0.05:  # the weight of another node, of the same shape
            shared = [
                w.name for w in self.weights if (w.dims, w.data_type) == (tensor.dims, TensorProto.FLOAT)
            ]
            if shared and tensor.data_type == TensorProto.FLOAT:
                return shared[int(self.rng.integers(len(shared)))]
        if self.in_nodes or self.rng.random() < 0.2:
            self.nodes.append(helper.make_node("Constant", [], [name], name=f"{name}_node", value=tensor))
        else:
            self.weights.append(tensor)
        return name

    def feed(self, array: np.ndarray) -> str:
        name = f"x{len(self.fed)}"
        self.fed[name] = array
        return name

    def end(self, name: str, shape: tuple[int, ...], dtype: int) -> None:
        self.ends[name] = shape, dtype

    def number(self, value: float, rank: int) -> str:
        ones = int(self.rng.integers(0, rank + 1))
        return self.constant(np.full((1,) * ones, value, np.float32))

    def some(self, *shape: int) -> np.ndarray:
        return (self.rng.standard_normal(shape) * 0.4).astype(np.float32)

    def pick(self, *ranks: int) -> str | None:
        fitting = [name for name, shape in self.values.items() if not ranks or len(shape) in ranks]
        if not fitting:
            return None
        # Mostly what came last, so that chains grow; now and then something older, which is then used twice.
        return fitting[-1] if self.rng.random() < 0.8 else fitting[int(self.rng.integers(len(fitting)))]


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


class _Forms:
    """Makes the forms of exporters in a graph."""

    def __init__(self, g: GrowingGraph) -> None:
        self.g = g
        self.shapes: dict[str, tuple[int, ...]] = {}

    def op(self, operator: str, *inputs: str, **attributes: object) -> str:
        given = [self.shapes.get(name, self.g.values.get(name, ())) for name in inputs]
        shape = tuple(np.broadcast_shapes(*given))
        axes = attributes.get("axes")
        if isinstance(axes, list):
            gone = {axis % len(shape) for axis in axes}
            shape = tuple(1 if axis in gone else d for axis, d in enumerate(shape))
        return self.g.add(operator, list(inputs), shape, **attributes)

    def number(self, value: float) -> str:
        return self.g.constant(np.array(value, np.float32))

    def weight(self, array: np.ndarray) -> str:
        name = self.g.constant(array)
        self.shapes[name] = array.shape
        return name


def _gelu(g: GrowingGraph) -> None:
    x = g.pick()
    assert x is not None
    GELUS[int(g.rng.integers(len(GELUS)))](_Forms(g), x)


def _layer_norm(g: GrowingGraph) -> None:
    """Of the input only: where a mean is many times the deviation, the order of sums shows."""
    shape = g.values["x"]
    axes = [axis for axis, size in enumerate(shape) if axis and size >= 4]
    if axes:
        axis = int(g.rng.choice(axes))
        NORMS[int(g.rng.integers(len(NORMS)))](_Forms(g), "x", axis, shape[axis], len(shape))


def _instance_norm(g: GrowingGraph) -> None:
    """Of the input only, as well."""
    shape = g.values["x"]
    if len(shape) > 2 and np.prod(shape[2:]) >= 4:
        INSTANCES[int(g.rng.integers(len(INSTANCES)))](_Forms(g), "x", shape[1], len(shape))


def _rms_norm(g: GrowingGraph) -> None:
    shape = g.values["x"]
    if shape[-1] >= 4 and len(shape) > 1:
        RMS[int(g.rng.integers(len(RMS)))](_Forms(g), "x", shape[-1])


class _Within(_Forms):
    """Makes the forms of exporters, and keeps what lies within from being used elsewhere."""

    def op(self, operator: str, *inputs: str, **attributes: object) -> str:
        name = f"w{len(self.g.nodes)}"
        self.g.nodes.append(
            helper.make_node(operator, list(inputs), [name], name=f"{operator}_{name}", **attributes)
        )
        return name

    def weight(self, array: np.ndarray) -> str:
        kept = array if array.dtype.kind in "iu" else array.astype(np.float32)
        return self.g.constant(np.asarray(kept))


def _attention(g: GrowingGraph) -> None:
    """Attention in one of its forms, whose weights are now and then read elsewhere too."""
    x = g.pick(3)
    if x is None or g.opset < 17:
        return
    batch, length, width = g.values[x]
    mask = None
    if g.rng.random() < 0.5:
        rows = length if g.rng.random() < 0.5 else 1
        mask = g.constant(np.where(g.some(1, 1, rows, length) > 0.3, -1e9, 0).astype(np.float32))
    given = g.add(
        "Tanh",
        [g.add("MatMul", [x, g.constant(g.some(width, WIDTH))], (batch, length, WIDTH))],
        (batch, length, WIDTH),
    )
    within = _Within(g)
    made = ATTENTIONS[int(g.rng.integers(len(ATTENTIONS)))](within, given, mask)
    if g.rng.random() < 0.15:
        weights = next(node.output[0] for node in reversed(g.nodes) if node.op_type == "Softmax")
        g.values[weights] = (batch, HEADS, length, length)
    g.add("Identity", [made], (batch, length, WIDTH))


def _softmax(g: GrowingGraph) -> None:
    """Over any axis, sometimes with much behind it."""
    x = g.pick(4)
    if x is None or g.opset < 13:
        return
    shape = g.values[x]
    if g.rng.random() < 0.7:
        n, c, h, w = shape
        shape = (n, c, 16 * h, 16 * w)
        x = g.add("Tile", [x, g.constant(np.array([1, 1, 16, 16], np.int64))], shape)
    axis = int(g.rng.integers(-4, 4))
    shares = g.add("Softmax", [x], shape, axis=axis)
    g.add("GlobalAveragePool", [shares], (*shape[:2], 1, 1))


def _written_softmax(g: GrowingGraph) -> None:
    """Softmax or its logarithm written out, over the last axis or another, which others now and then read within."""
    x = g.pick(2, 3, 4)
    if x is None or g.opset < 13:
        return
    shape = g.values[x]
    forms = (*SOFTMAXES, *LOG_SOFTMAXES)
    axis = -1 if g.rng.random() < 0.7 else int(g.rng.integers(-len(shape), len(shape)))
    given = g.add("Tanh", [x], shape)  # what overflows without the maximum is another number with it
    made = forms[int(g.rng.integers(len(forms)))](_Within(g), given, axis)
    if g.rng.random() < 0.15:
        made = _Within(g).op(
            "Add", made, next(n.output[0] for n in g.nodes[::-1] if n.op_type in ("Exp", "Sub"))
        )
    g.add("Identity", [made], shape)


def _one_hot(g: GrowingGraph) -> None:
    x = g.pick()
    assert x is not None
    shape = g.values[x]
    whole, count = f"i{len(g.nodes)}", int(g.rng.integers(2, 6))
    g.nodes.append(helper.make_node("Cast", [x], [whole], name=f"{whole}_cast", to=TensorProto.INT64))
    row = np.arange(count, dtype=np.int64) - int(g.rng.integers(0, 3))
    if g.rng.random() < 0.2:
        row[-1] += 1
    last = [*shape, 1]
    each, code = f"{whole}_each", f"{whole}_code"
    g.nodes += [
        helper.make_node("Reshape", [whole, g.constant(np.array(last, np.int64))], [each], name=each),
        helper.make_node("Equal", [each, g.constant(row)], [code], name=code),
    ]
    hot = g.add("Cast", [code], (*shape, count), to=TensorProto.FLOAT)
    product = g.add("MatMul", [hot, g.constant(g.some(count, 3))], (*shape, 3))
    if g.rng.random() < 0.5:
        GELUS[int(g.rng.integers(len(GELUS)))](_Forms(g), product)


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
    _gelu,
    _layer_norm,
    _one_hot,
    _joined,
    _rms_norm,
    _attention,
    _softmax,
    _written_softmax,
    _instance_norm,
    *STRUCTURAL_STEPS,
    *TYPED_STEPS,
)
