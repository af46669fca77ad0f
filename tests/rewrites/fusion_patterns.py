"""What ONNX Runtime's optimiser fuses by itself, as models: each pattern alone, and between neighbours that nets have.

A rewrite that changes one of their nodes may keep the others from being fused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import fused_forms as forms
import numpy as np
import onnx
from onnx import TensorProto, helper

from graphs import Graph
from onnx_text import assemble

WIDTH, CHANNELS = 16, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One form of what is fused, as a model.

    Attributes:
        name: Of the pattern, and of what stands before and behind it.
        shape: Of the input ``x``.
        model: It.
    """

    name: str
    shape: tuple[int, ...]
    model: onnx.ModelProto


Form = Callable[[Graph, str], str]


def bias_gelu(n: Graph, x: str) -> str:
    return forms.gelu_torch(n, n.op("Add", x, n.some(WIDTH)))


def quick_gelu(n: Graph, x: str) -> str:
    return n.op("Mul", x, n.op("Sigmoid", n.op("Mul", x, n.number(1.702))))


def swish(n: Graph, x: str) -> str:
    return n.op("Mul", x, n.op("Sigmoid", x))


def layer_norm(n: Graph, x: str) -> str:
    return forms.norm_torch(n, x, -1, WIDTH, 3)


def skip_layer_norm(n: Graph, x: str) -> str:
    return layer_norm(n, n.op("Add", x, n.op("Relu", x)))


def embedded_norm(n: Graph, x: str) -> str:
    """The operator itself behind a bias and a residual."""
    total = n.op("Add", n.op("Add", n.op("Relu", x), n.some(WIDTH)), x)
    return n.op("LayerNormalization", total, n.positive(WIDTH), n.some(WIDTH), axis=-1)


def layer_norm_of_gamma(n: Graph, x: str) -> str:
    """Without beta, whose place is empty."""
    centred = n.op("Sub", x, n.op("ReduceMean", x, axes=[-1]))
    variance = n.op("ReduceMean", n.op("Pow", centred, n.number(2)), axes=[-1])
    return n.op(
        "Mul", n.op("Div", centred, n.op("Sqrt", n.op("Add", variance, n.number(1e-5)))), n.positive(WIDTH)
    )


def rms_norm(n: Graph, x: str) -> str:
    return forms.rms_torch(n, x, WIDTH)


def table_norm(n: Graph, x: str) -> str:
    return forms.norm_torch(n, x, -1, WIDTH, 2)


def matmul_add(n: Graph, x: str) -> str:
    return n.op("Add", n.op("MatMul", x, n.some(WIDTH, WIDTH)), n.some(WIDTH))


def matmul_scale(n: Graph, x: str) -> str:
    return n.op("Div", n.op("MatMul", x, n.some(WIDTH, WIDTH)), n.number(4.0))


def matmul_norm(n: Graph, x: str) -> str:
    y = n.op("MatMul", n.op("Reshape", x, n.weight(np.array([-1, WIDTH], np.int64))), n.some(WIDTH, WIDTH))
    stats = (n.positive(WIDTH), n.some(WIDTH), n.some(WIDTH), n.positive(WIDTH))
    return n.op("Reshape", n.op("BatchNormalization", y, *stats), n.weight(np.array([2, 4, WIDTH], np.int64)))


def gemm_relu(n: Graph, x: str) -> str:
    flat = n.op("Reshape", x, n.weight(np.array([8, WIDTH], np.int64)))
    y = n.op("Relu", n.op("Gemm", flat, n.some(WIDTH, WIDTH), n.some(WIDTH)))
    return n.op("Reshape", y, n.weight(np.array([2, 4, WIDTH], np.int64)))


def turned_matmul(n: Graph, x: str) -> str:
    return n.op("MatMul", n.op("MatMul", x, n.op("Transpose", n.op("Relu", x), perm=[0, 2, 1])), x)


def matmul_of_turned(n: Graph, x: str) -> str:
    y = n.op("MatMul", n.op("Transpose", x, perm=[0, 2, 1]), x)
    return n.op("MatMul", x, n.op("Mul", y, n.number(0.25)))


def bias_softmax(n: Graph, x: str) -> str:
    return n.op("Softmax", n.op("Add", x, n.some(1, 4, WIDTH)), axis=-1)


def attention(n: Graph, x: str) -> str:
    """One head of BERT: three products with bias, turned, a softmax, and the product behind."""
    heads = 4

    def split(perm: list[int]) -> str:
        y = n.op("Add", n.op("MatMul", x, n.some(WIDTH, WIDTH)), n.some(WIDTH))
        shape = n.weight(np.array([0, 0, heads, WIDTH // heads], np.int64))
        return n.op("Transpose", n.op("Reshape", y, shape), perm=perm)

    q, k, v = split([0, 2, 1, 3]), split([0, 2, 3, 1]), split([0, 2, 1, 3])
    scores = n.op("Div", n.op("MatMul", q, k), n.number(2.0))
    mixed = n.op("MatMul", n.op("Softmax", scores, axis=-1), v)
    shape = n.weight(np.array([0, 0, WIDTH], np.int64))
    return n.op("Reshape", n.op("Transpose", mixed, perm=[0, 2, 1, 3]), shape)


def qdq_matmul(n: Graph, x: str) -> str:
    scale, zero = n.number(0.05), n.weight(np.array(128, np.uint8))
    weight = n.weight(np.random.default_rng(3).integers(-127, 127, (WIDTH, WIDTH)).astype(np.int8))
    fed = n.op("DequantizeLinear", n.op("QuantizeLinear", x, scale, zero), scale, zero)
    y = n.op("MatMul", fed, n.op("DequantizeLinear", weight, n.number(0.01), n.weight(np.array(0, np.int8))))
    return n.op("DequantizeLinear", n.op("QuantizeLinear", y, scale, zero), scale, zero)


def conv(n: Graph, x: str, *, bias: bool = True) -> str:
    more = [n.some(CHANNELS)] if bias else []
    return n.op("Conv", x, n.some(CHANNELS, CHANNELS, 3, 3), *more, pads=[1, 1, 1, 1])


def conv_norm(n: Graph, x: str) -> str:
    stats = (n.positive(CHANNELS), n.some(CHANNELS), n.some(CHANNELS), n.positive(CHANNELS))
    return n.op("BatchNormalization", conv(n, x, bias=False), *stats)


def conv_norm_relu(n: Graph, x: str) -> str:
    return n.op("Relu", conv_norm(n, x))


def conv_mul(n: Graph, x: str) -> str:
    return n.op("Mul", conv(n, x), n.positive(CHANNELS, 1, 1))


def conv_add(n: Graph, x: str) -> str:
    return n.op("Add", conv(n, x, bias=False), n.some(1, CHANNELS, 1, 1))


def conv_clip(n: Graph, x: str) -> str:
    return n.op("Clip", conv(n, x), n.number(0.0), n.number(6.0))


def conv_leaky(n: Graph, x: str) -> str:
    return n.op("LeakyRelu", conv(n, x), alpha=0.1)


def conv_sigmoid(n: Graph, x: str) -> str:
    return n.op("Sigmoid", conv(n, x))


def conv_hard_sigmoid(n: Graph, x: str) -> str:
    return n.op("HardSigmoid", conv(n, x), alpha=1 / 6, beta=0.5)


def conv_swish(n: Graph, x: str) -> str:
    return swish(n, conv(n, x))


def conv_hard_swish(n: Graph, x: str) -> str:
    return n.op("HardSwish", conv(n, x))


def hard_swish_parts(n: Graph, x: str) -> str:
    y = conv(n, x)
    hard = n.op("Clip", n.op("Add", y, n.number(3.0)), n.number(0.0), n.number(6.0))
    return n.op("Div", n.op("Mul", y, hard), n.number(6.0))


def conv_residual(n: Graph, x: str) -> str:
    return n.op("Relu", n.op("Add", conv(n, x), x))


def pad_conv(n: Graph, x: str) -> str:
    pads = n.weight(np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    return n.op("Conv", n.op("Pad", x, pads), n.some(CHANNELS, CHANNELS, 3, 3))


def qdq_conv(n: Graph, x: str) -> str:
    scale, zero = n.number(0.05), n.weight(np.array(128, np.uint8))
    values = np.random.default_rng(4).integers(-127, 127, (CHANNELS, CHANNELS, 3, 3)).astype(np.int8)
    fed = n.op("DequantizeLinear", n.op("QuantizeLinear", x, scale, zero), scale, zero)
    weight = n.op("DequantizeLinear", n.weight(values), n.number(0.01), n.weight(np.array(0, np.int8)))
    y = n.op("Relu", n.op("Conv", fed, weight, pads=[1, 1, 1, 1]))
    return n.op("DequantizeLinear", n.op("QuantizeLinear", y, scale, zero), scale, zero)


GELUS: tuple[Form, ...] = (*forms.GELUS, bias_gelu, quick_gelu)
ROWS: tuple[Form, ...] = (
    *GELUS, swish, layer_norm, layer_norm_of_gamma, skip_layer_norm, embedded_norm, rms_norm, matmul_add,
    matmul_scale, matmul_norm,
    gemm_relu, turned_matmul, matmul_of_turned, bias_softmax, attention, qdq_matmul,
)  # fmt: skip
"""Patterns of a tensor of three axes."""
IMAGES: tuple[Form, ...] = (
    *forms.GELUS, quick_gelu, swish, conv_norm, conv_norm_relu, conv_mul, conv_add, conv_clip, conv_leaky, conv_sigmoid,
    conv_hard_sigmoid, conv_swish, conv_hard_swish, hard_swish_parts, conv_residual, pad_conv, qdq_conv,
)  # fmt: skip
"""Patterns of a tensor of four axes."""

TABLES: tuple[Form, ...] = (
    *GELUS,
    swish,
    table_norm,
    layer_norm_of_gamma,
    rms_norm,
    matmul_add,
    matmul_scale,
)
"""Patterns of a tensor of two axes."""

TABLE, ROW, IMAGE = (8, WIDTH), (2, 4, WIDTH), (1, CHANNELS, 6, 6)


def _nothing(n: Graph, x: str) -> str:
    return x


def _scaled(n: Graph, x: str) -> str:
    return n.op("Mul", x, n.number(0.5))


def _shifted(n: Graph, x: str) -> str:
    return n.op("Add", x, n.number(1.5))


def _product(n: Graph, x: str) -> str:
    return n.op("MatMul", x, n.some(WIDTH, WIDTH))


def _dense(n: Graph, x: str) -> str:
    flat = n.op("Reshape", x, n.weight(np.array([8, WIDTH], np.int64)))
    y = n.op("Gemm", flat, n.some(WIDTH, WIDTH), n.some(WIDTH))
    return n.op("Reshape", y, n.weight(np.array([2, 4, WIDTH], np.int64)))


def _gemm(n: Graph, x: str) -> str:
    return n.op("Gemm", x, n.some(WIDTH, WIDTH), n.some(WIDTH))


def _one_by_one(n: Graph, x: str) -> str:
    return n.op("Conv", x, n.some(CHANNELS, CHANNELS, 1, 1), n.some(CHANNELS))


ROW_SIDES: tuple[Form, ...] = (_nothing, _scaled, _shifted, _product, matmul_add, _dense)
TABLE_SIDES: tuple[Form, ...] = (_nothing, _scaled, _shifted, _product, matmul_add, _gemm)
IMAGE_SIDES: tuple[Form, ...] = (_nothing, _scaled, _shifted, _one_by_one, conv_norm)


def _model(chain: tuple[Form, ...], shape: tuple[int, ...], opset: int = 17) -> onnx.ModelProto:
    net = Graph()
    value = "x"
    for form in chain:
        value = form(net, value)
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", value)]
    model = assemble(net.nodes, sides[:1], sides[1:], net.weights, opset=opset)
    return onnx.shape_inference.infer_shapes(model)  # as exporters write them, which rewrites look at


FAMILIES: tuple[tuple[tuple[int, ...], tuple[Form, ...], tuple[Form, ...]], ...] = (
    (TABLE, TABLES, TABLE_SIDES),
    (ROW, ROWS, ROW_SIDES),
    (IMAGE, IMAGES, IMAGE_SIDES),
)
"""Shapes, the patterns of each, and what may stand beside them; the last but one is a product with a bias."""


def between(shape: tuple[int, ...], pattern: Form, sides: tuple[Form, ...]) -> Iterator[Pattern]:
    """A pattern before each neighbour, and behind each that is before a product."""
    pairs = [(_nothing, behind) for behind in sides] + [(before, sides[-2]) for before in sides[1:]]
    for before, behind in pairs:
        chain = (before, pattern, behind)
        name = " ".join(form.__name__.strip("_") for form in chain if form is not _nothing)
        yield Pattern(name=name, shape=shape, model=_model(chain, shape))
