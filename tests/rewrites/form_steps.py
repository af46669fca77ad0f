"""Steps of random graphs that add what exporters write out: Gelu, norms, attention, softmax, a table."""

from __future__ import annotations

import numpy as np
from fused_forms import ATTENTIONS, GELUS, HEADS, INSTANCES, LOG_SOFTMAXES, NORMS, RMS, SOFTMAXES, WIDTH
from growing_graph import GrowingGraph
from onnx import TensorProto, helper


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


def gelu(g: GrowingGraph) -> None:
    x = g.pick()
    assert x is not None
    GELUS[int(g.rng.integers(len(GELUS)))](_Forms(g), x)


def layer_norm(g: GrowingGraph) -> None:
    """Of the input only: where a mean is many times the deviation, the order of sums shows."""
    shape = g.values["x"]
    axes = [axis for axis, size in enumerate(shape) if axis and size >= 4]
    if axes:
        axis = int(g.rng.choice(axes))
        NORMS[int(g.rng.integers(len(NORMS)))](_Forms(g), "x", axis, shape[axis], len(shape))


def instance_norm(g: GrowingGraph) -> None:
    """Of the input only, as well."""
    shape = g.values["x"]
    if len(shape) > 2 and np.prod(shape[2:]) >= 4:
        INSTANCES[int(g.rng.integers(len(INSTANCES)))](_Forms(g), "x", shape[1], len(shape))


def rms_norm(g: GrowingGraph) -> None:
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


def attention(g: GrowingGraph) -> None:
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


def softmax(g: GrowingGraph) -> None:
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


def written_softmax(g: GrowingGraph) -> None:
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


def one_hot(g: GrowingGraph) -> None:
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
