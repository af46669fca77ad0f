"""Small models of what exporters write: the corpus of the rewrites is made of them."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

from graphs import drawn_by_name

Feeds = dict[str, np.ndarray]
FLOAT = TensorProto.FLOAT
HALF = TensorProto.FLOAT16
info = helper.make_tensor_value_info
node = helper.make_node


weight = partial(drawn_by_name, times=0.3)


def positive(name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.abs(numpy_helper.to_array(weight(name, *shape))) + 0.5, name)


def as_inputs(weights: list[onnx.TensorProto]) -> list[onnx.ValueInfoProto]:
    return [info(w.name, w.data_type, list(w.dims)) for w in weights]


def model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    weights: list[onnx.TensorProto],
    *,
    opset: int = 13,
    ir_version: int = 7,
    **more: object,
) -> onnx.ModelProto:
    value_info = more.pop("value_info", None)
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights, value_info=value_info)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version, **more
    )


def old_exporter() -> onnx.ModelProto:
    """IR version 3: Conv, BatchNormalization, Relu; every weight is an input, one is an output too."""
    weights = [
        weight("w", 16, 3, 3, 3), positive("scale", 16), weight("bias", 16),
        weight("mean", 16), positive("var", 16),
    ]  # fmt: skip
    nodes = [
        node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c", "scale", "bias", "mean", "var"], ["b"], name="bn"),
        node("Relu", ["b"], ["y"], name="relu"),
    ]
    return model(
        nodes,
        [info("x", FLOAT, [1, 3, 16, 16]), *as_inputs(weights)],
        [info("y", FLOAT, [1, 16, 16, 16]), info("bias", FLOAT, [16])],
        weights,
        opset=8,
        ir_version=3,
    )


def branches(*, weights_are_inputs: bool) -> onnx.ModelProto:
    """An If whose branches read an outer weight, which is an input too where asked."""
    weights = [weight("w", 4, 4)]
    then = helper.make_graph(
        [node("MatMul", ["x", "w"], ["t"], name="t")], "then", [], [info("t", FLOAT, None)]
    )
    other = helper.make_graph(
        [node("Add", ["x", "w"], ["e"], name="e")], "else", [], [info("e", FLOAT, None)]
    )
    return model(
        [node("If", ["go"], ["y"], name="if", then_branch=then, else_branch=other)],
        [
            info("x", FLOAT, [4, 4]),
            info("go", TensorProto.BOOL, []),
            *(as_inputs(weights) if weights_are_inputs else []),
        ],
        [info("y", FLOAT, [4, 4])],
        weights,
    )


def loop() -> onnx.ModelProto:
    """Three rounds of s = relu(s @ w), in a Loop whose body reads the outer weight."""
    body = helper.make_graph(
        [
            node("MatMul", ["s_in", "w"], ["m"], name="m"),
            node("Relu", ["m"], ["s_out"], name="r"),
            node("Identity", ["c_in"], ["c_out"], name="i"),
        ],
        "body",
        [info("k", TensorProto.INT64, []), info("c_in", TensorProto.BOOL, []), info("s_in", FLOAT, ["n", 4])],
        [info("c_out", TensorProto.BOOL, []), info("s_out", FLOAT, ["n", 4])],
    )
    weights = [
        weight("w", 4, 4),
        numpy_helper.from_array(np.int64(3), "rounds"),
        numpy_helper.from_array(np.bool_(True), "on"),
    ]
    return model(
        [node("Loop", ["rounds", "on", "x"], ["y"], name="loop", body=body)],
        [info("x", FLOAT, ["n", 4])],
        [info("y", FLOAT, ["n", 4])],
        weights,
    )


def dynamic() -> onnx.ModelProto:
    """Flatten by shape arithmetic, named and unnamed dimensions, shapes declared inside."""
    weights = [
        weight("w", 24, 8),
        numpy_helper.from_array(np.array([0], np.int64), "zero"),
        numpy_helper.from_array(np.array([-1], np.int64), "rest"),
    ]
    nodes = [
        node("Add", ["x", "z"], ["a"], name="add"),
        node("Shape", ["a"], ["s"], name="shape"),
        node("Gather", ["s", "zero"], ["n"], name="gather"),
        node("Concat", ["n", "rest"], ["to"], name="concat", axis=0),
        node("Reshape", ["a", "to"], ["f"], name="reshape"),
        node("MatMul", ["f", "w"], ["y"], name="matmul"),
    ]
    return model(
        nodes,
        [info("x", FLOAT, ["batch", None, 4]), info("z", FLOAT, ["batch", 6, 4])],
        [info("y", FLOAT, ["batch", 8]), info("a", FLOAT, ["batch", "six", 4])],
        weights,
        value_info=[info("f", FLOAT, ["batch", 24]), info("to", TensorProto.INT64, [2])],
    )


def plain() -> onnx.ModelProto:
    """A MatMul with its weight in the file and static shapes; large enough to stay outside of the graph."""
    weights = [weight("w", 32, 16)]
    return model(
        [
            node("MatMul", ["x", "w"], ["m"], name="matmul"),
            node("Identity", ["m"], ["i"], name="identity"),
            node("Relu", ["i"], ["y"], name="relu"),
        ],
        [info("x", FLOAT, [8, 32])],
        [info("y", FLOAT, [8, 16])],
        weights,
    )


def with_function() -> onnx.ModelProto:
    """A model-local function: y = twice(x) + w."""
    twice = helper.make_function(
        "local",
        "Twice",
        ["a"],
        ["b"],
        [node("Add", ["a", "a"], ["b"], name="sum")],
        [helper.make_opsetid("", 13)],
    )
    made = model(
        [
            node("Twice", ["x"], ["t"], name="twice", domain="local"),
            node("Add", ["t", "w"], ["y"], name="add"),
        ],
        [info("x", FLOAT, [4])],
        [info("y", FLOAT, [4])],
        [weight("w", 4)],
        ir_version=8,
        functions=[twice],
    )
    made.opset_import.append(helper.make_opsetid("local", 1))
    return made


def number(name: str, value: float, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.full(shape, value, np.float32), name)


def paddle_block() -> onnx.ModelProto:
    """PP-LCNet: Conv, scale and shift, HardSwish, scale and shift, then a convolution that pads."""
    weights = [
        weight("w1", 16, 3, 1, 1), weight("b1", 16), weight("w2", 16, 1, 3, 3), number("s1", 1.4, 1),
        number("t1", 0.6, 1), number("s2", 0.17, 1), number("t2", 0.3, 1), number("three", 3.0, 1),
        number("zero", 0.0), number("six", 6.0), number("divisor", 6.0, 1),
    ]  # fmt: skip
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c"], name="pointwise"),
        node("Mul", ["s1", "c"], ["m"], name="scale"),
        node("Add", ["m", "t1"], ["a"], name="shift"),
        node("Add", ["a", "three"], ["p"], name="plus"),
        node("Clip", ["p", "zero", "six"], ["k"], name="clip"),
        node("Mul", ["a", "k"], ["h"], name="times"),
        node("Div", ["h", "divisor"], ["hs"], name="over"),
        node("Mul", ["s2", "hs"], ["m2"], name="scale2"),
        node("Add", ["m2", "t2"], ["a2"], name="shift2"),
        node("Conv", ["a2", "w2"], ["y"], name="depthwise", group=16, pads=[1, 1, 1, 1]),
    ]
    return model(
        nodes, [info("x", FLOAT, ["n", 3, 9, 7])], [info("y", FLOAT, ["n", 16, 9, 7])], weights, opset=11
    )


def used_twice() -> onnx.ModelProto:
    """A scale and a shift from a convolution to one that pads, whose result is used elsewhere too."""
    weights = [
        weight("w1", 16, 3, 1, 1),
        weight("w2", 16, 1, 3, 3),
        number("s", 1.4, 1),
        weight("t", 1, 16, 1, 1),
    ]
    nodes = [
        node("Conv", ["x", "w1"], ["c"], name="pointwise"),
        node("Sigmoid", ["c"], ["g"], name="gate"),
        node("Mul", ["g", "s"], ["m"], name="scale"),
        node("Add", ["m", "t"], ["a"], name="shift"),
        node("Conv", ["a", "w2"], ["d"], name="depthwise", group=16, pads=[1, 1, 1, 1]),
        node("Add", ["a", "d"], ["y"], name="residual"),
    ]
    return model(nodes, [info("x", FLOAT, [1, 3, 9, 7])], [info("y", FLOAT, [1, 16, 9, 7])], weights)


def hard_in_a_branch() -> onnx.ModelProto:
    """HardSigmoid by Clip in a branch of an If, and one whose Clip is an output too, which must stay."""
    then = helper.make_graph(
        [
            node("Add", ["x", "three"], ["p"], name="plus"),
            node("Clip", ["p", "zero", "six"], ["k"], name="clip"),
            node("Div", ["k", "six"], ["t"], name="over"),
        ],
        "then",
        [],
        [info("t", FLOAT, None)],
    )
    other = helper.make_graph(
        [node("Add", ["x", "three"], ["e"], name="other")], "else", [], [info("e", FLOAT, None)]
    )
    return model(
        [
            node("If", ["go"], ["y"], name="if", then_branch=then, else_branch=other),
            node("Add", ["x", "three"], ["q"], name="outer plus"),
            node("Clip", ["q", "zero", "six"], ["z"], name="outer clip"),
            node("Div", ["z", "six"], ["v"], name="outer over"),
        ],
        [info("x", FLOAT, [4, 4]), info("go", TensorProto.BOOL, [])],
        [info("y", FLOAT, [4, 4]), info("z", FLOAT, [4, 4]), info("v", FLOAT, [4, 4])],
        [number("three", 3.0), number("zero", 0.0), number("six", 6.0)],
    )


def up_and_normalise() -> onnx.ModelProto:
    """ConvTranspose in groups, Add, BatchNormalization of opset 8; the last is an output and keeps its name."""
    weights = [
        weight("w", 4, 3, 2, 2), weight("shift", 1, 6, 1, 1), positive("scale", 6), weight("bias", 6),
        weight("mean", 6), positive("var", 6),
    ]  # fmt: skip
    nodes = [
        node("ConvTranspose", ["x", "w"], ["c"], name="up", group=2, strides=[2, 2]),
        node("Add", ["c", "shift"], ["a"], name="add"),
        node("BatchNormalization", ["a", "scale", "bias", "mean", "var"], ["y"], name="bn"),
    ]
    return model(
        nodes, [info("x", FLOAT, [1, 4, 5, 5])], [info("y", FLOAT, [1, 6, 10, 10])], weights, opset=8
    )


def half(name: str, *shape: int) -> onnx.TensorProto:
    values = np.random.default_rng(len(name)).standard_normal(shape) * 0.2
    return numpy_helper.from_array(values.astype(np.float16), name)


def in_half(opset: int = 13) -> onnx.ModelProto:
    """A convolution, a Constant, an If with a weight of its own, casts both ways; an input that is an output."""
    then = helper.make_graph(
        [node("Mul", ["b", "inner"], ["t"], name="scaled")],
        "then",
        [],
        [info("t", HALF, None)],
        [half("inner", 1)],
    )
    other = helper.make_graph(
        [node("Cast", ["b"], ["e32"], name="up", to=1), node("Cast", ["e32"], ["e"], name="down", to=HALF)],
        "else",
        [],
        [info("e", HALF, None)],
    )
    nodes = [
        node("Constant", [], ["k"], name="constant", value=half("k_value", 1)),
        node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        node("Max", ["c", "k"], ["b"], name="max"),
        node("If", ["go"], ["y"], name="if", then_branch=then, else_branch=other),
        node("Cast", ["y"], ["z"], name="out", to=TensorProto.FLOAT),
        node("Relu", ["y"], ["r"], name="relu"),
    ]
    shape = [1, 4, 6, 6]
    return model(
        nodes,
        [info("x", HALF, [1, 3, 6, 6]), info("go", TensorProto.BOOL, [])],
        [
            info("y", HALF, shape),
            info("z", TensorProto.FLOAT, shape),
            info("r", HALF, shape),
            info("w", HALF, [4, 3, 3, 3]),
        ],
        [half("w", 4, 3, 3, 3)],
        opset=opset,
    )


def joined_channels(perm: tuple[int, ...] = (0, 3, 1, 2), *, sliced: bool = True) -> onnx.ModelProto:
    """Channels joined along the last axis, twice, one input in both places; perhaps a Slice; then a Transpose."""
    bounds = {"starts": [1, 0], "ends": [-1, 3], "axes": [-2, 3]}
    nodes = [
        node("Concat", ["a", "b"], ["ab"], name="inner", axis=3),
        node("Concat", ["ab", "a", "b", "a"], ["joined"], name="outer", axis=-1),
        node("Slice", ["joined", *bounds], ["cut"], name="slice"),
        node("Transpose", ["cut" if sliced else "joined"], ["t"], name="transpose", perm=list(perm)),
        node("Relu", ["t"], ["y"], name="relu"),
    ]
    return model(
        nodes if sliced else [n for n in nodes if n.op_type != "Slice"],
        [info("a", FLOAT, ["n", 5, 7, 1]), info("b", FLOAT, ["n", 5, 7, 1])],
        [info("y", FLOAT, [None] * 4)],
        [numpy_helper.from_array(np.array(v, np.int64), k) for k, v in bounds.items()] if sliced else [],
    )


def joined_in_steps() -> onnx.ModelProto:
    """Joins in three steps, one of them along the same axis counted from the end, of which one is read twice."""
    return onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 17]>
steps (float[2,3,n] a, float[2,5,n] b) => (float[2,m,n] y, float[k,5,n] z)
{
    b_b = Concat <axis = 1> (b, b)
    u, v = Split <axis = 1> (b_b)
    again = Concat <axis = -2> (u, v)
    first = Concat <axis = 1> (a, again)
    second = Concat <axis = -2> (first, b)
    y = Concat <axis = 1> (second, a)
    twice = Concat <axis = 0> (b, b)
    t = Relu (twice)
    z = Concat <axis = 0> (twice, t)
}
""")


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


def for_phones() -> onnx.ModelProto:
    """Operators that accelerators of phones lack, each in a form that they have another for."""
    text = """
        <ir_version: 8, opset_import: ["" : 17]>
        phones (float[1,2,5,6] x) => (float[1,2,16,18] y)
        <int64[8] mirror = {0,0,1,2,0,0,1,0}, int64[8] edge = {0,0,0,1,0,0,1,1}, int64[8] outer = {0,0,1,0,0,0,0,0},
         float two = {2}, float low = {-0.5}, float high = {1.5}, float[4] scales = {1,1,2,2}>
        {
            a = Pad <mode = "reflect"> (x, mirror)
            b = HardSigmoid (a)
            c = HardSwish (a)
            d = Neg (b)
            e = Sum (b, c, d)
            f = Clip (e, low, high)
            h = Resize <mode = "nearest"> (f, , scales)
            k = Pad (h, outer, two)
            m = Pad <mode = "edge"> (k, edge)
            y = Identity (m)
        }
    """
    return onnx.parser.parse_model(text)
