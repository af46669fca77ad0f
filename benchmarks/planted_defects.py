"""Defects to plant in real models, each with the rule that is to find it.

A plant changes a model in place, and says whether the model has room for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
import onnx.version_converter
from onnx import TensorProto, helper, numpy_helper
from written_out_steps import CELLS, written_out

from ortune.records import Plan, ProviderSpec
from ortune.records.base import Value
from ortune.rules import all_rules

Plant = Callable[[onnx.ModelProto], bool]
Pattern = Callable[[str, str], Sequence[onnx.NodeProto]]
"""Nodes that read the first value and make the second."""
DEFAULT = Plan()


@dataclass(frozen=True, kw_only=True)
class Defect:
    """What is planted, and the rule that is to find it.

    Attributes:
        plant: Changes the model; whether it has room for the defect.
        plan: Settings that are wrong, where the defect is in those.
        right: Settings without the defect, where that is in the defaults.
        target: Where it is a defect.
        external: The weights are put beside the model.
        respelled: Whether it stays a defect where the model is written otherwise (``SPELLINGS``, ``VERSIONS``).
    """

    code: str
    plant: Plant = lambda model: True
    plan: Plan = DEFAULT
    right: Plan = DEFAULT
    target: str = "cpu"
    external: bool = False
    respelled: bool = True


def _opset(model: onnx.ModelProto) -> int:
    return max(each.version for each in model.opset_import if each.domain in ("", "ai.onnx"))


def _first(model: onnx.ModelProto, *ops: str) -> onnx.NodeProto | None:
    return next((node for node in model.graph.node if node.op_type in ops), None)


def _before(model: onnx.ModelProto, node: onnx.NodeProto, *made: onnx.NodeProto) -> None:
    at = list(model.graph.node).index(node)
    for each in reversed(made):
        model.graph.node.insert(at, each)


def _round_trip(model: onnx.ModelProto) -> bool:
    node = _first(model, "Conv", "Gemm", "MatMul")
    if node is None:
        return False
    down = helper.make_node("Cast", [node.input[0]], ["planted_half"], to=TensorProto.FLOAT16)
    up = helper.make_node("Cast", ["planted_half"], ["planted_float"], to=TensorProto.FLOAT)
    _before(model, node, down, up)
    node.input[0] = "planted_float"
    return True


def _listed_weights(model: onnx.ModelProto) -> bool:
    listed = {value.name for value in model.graph.input}
    stored = [tensor for tensor in model.graph.initializer if tensor.name not in listed]
    for tensor in stored:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return bool(stored)


def _dead(model: onnx.ModelProto) -> bool:
    model.graph.node.append(helper.make_node("Exp", [model.graph.input[0].name], ["planted_dead"]))
    return model.graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT


def _unused(model: onnx.ModelProto) -> bool:
    size = max(1 << 17, sum(len(tensor.raw_data) for tensor in model.graph.initializer) // 8)
    model.graph.initializer.append(numpy_helper.from_array(np.ones(size, np.float32), "planted_weights"))
    return True


def _denormal(model: onnx.ModelProto) -> bool:
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and np.prod(tensor.dims) >= 1024:
            values = numpy_helper.to_array(tensor).copy()
            values.reshape(-1)[: max(64, values.size // 500)] = 1e-40
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
            return True
    return False


def _norm(model: onnx.ModelProto) -> bool:
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    node = next((n for n in model.graph.node if n.op_type == "Conv" and n.input[1] in stored), None)
    if node is None or _opset(model) < 14:
        return False
    ones = np.ones(stored[node.input[1]].dims[0], np.float32)
    names = [f"planted_{part}" for part in ("scale", "shift", "mean", "variance")]
    model.graph.initializer.extend(numpy_helper.from_array(ones, name) for name in names)
    made, node.output[0] = node.output[0], "planted_before"
    norm = helper.make_node(
        "BatchNormalization", ["planted_before", *names], [made, "planted_m", "planted_v"], training_mode=1
    )
    model.graph.node.insert(list(model.graph.node).index(node) + 1, norm)
    return True


def _table(model: onnx.ModelProto) -> bool:
    """A large table beside an output, made of constants."""
    model.graph.initializer.append(numpy_helper.from_array(np.array([64, 1024, 1024]), "planted_shape"))
    table = helper.make_node("ConstantOfShape", ["planted_shape"], ["planted_zeros"])
    model.graph.node.extend([table, helper.make_node("ReduceMax", ["planted_zeros"], ["planted_zero"])])
    model.graph.output.append(helper.make_tensor_value_info("planted_zero", TensorProto.FLOAT, None))
    return True


def _integer(model: onnx.ModelProto) -> bool:
    node = next((n for n in model.graph.node if n.op_type == "Conv" and len(n.input) == 2), None)
    if node is None:
        return False
    numbers = ["planted_numbers", "planted_scale", "planted_zero_point"]
    _before(model, node, helper.make_node("DynamicQuantizeLinear", [node.input[0]], numbers))
    stored = next((t for t in model.graph.initializer if t.name == node.input[1]), None)
    if stored is None:
        return False
    model.graph.initializer.append(
        numpy_helper.from_array(np.ones(tuple(stored.dims), np.uint8), "planted_w")
    )
    del node.input[:]
    node.input.extend(["planted_numbers", "planted_w"])
    node.op_type = "ConvInteger"
    return True


def _pairs(unsigned: bool, closed: bool) -> Plant:
    """A convolution between pairs, with or without a sign in its weights, closed by a QuantizeLinear or not."""

    def plant(model: onnx.ModelProto) -> bool:
        stored = {tensor.name: tensor for tensor in model.graph.initializer}
        node = next((n for n in model.graph.node if n.op_type == "Conv" and n.input[1] in stored), None)
        if node is None or _opset(model) < 10:
            return False
        kind = np.uint8 if unsigned else np.int8
        given = {
            "planted_s": np.float32(0.1), "planted_z": np.uint8(0), "planted_t": kind(0),
            "planted_w": np.ones(tuple(stored[node.input[1]].dims), kind),
        }  # fmt: skip
        model.graph.initializer.extend(
            numpy_helper.from_array(np.asarray(a), name) for name, a in given.items()
        )
        q, d = "QuantizeLinear", "DequantizeLinear"
        _before(
            model, node,
            helper.make_node(q, [node.input[0], "planted_s", "planted_z"], ["planted_q"]),
            helper.make_node(d, ["planted_q", "planted_s", "planted_z"], ["planted_x"]),
            helper.make_node(d, ["planted_w", "planted_s", "planted_t"], ["planted_dw"]),
        )  # fmt: skip
        node.input[0], node.input[1] = "planted_x", "planted_dw"
        if closed:
            made, node.output[0] = node.output[0], "planted_c"
            at = list(model.graph.node).index(node)
            close = helper.make_node(q, ["planted_c", "planted_s", "planted_z"], ["planted_qc"])
            wide = helper.make_node(d, ["planted_qc", "planted_s", "planted_z"], [made])
            model.graph.node.insert(at + 1, wide)
            model.graph.node.insert(at + 1, close)
        return True

    return plant


def _wrong_size(model: onnx.ModelProto) -> bool:
    output = model.graph.output[0].type.tensor_type.shape
    first = model.graph.input[0].type.tensor_type.shape
    if not output.dim or not all(dim.dim_value for dim in (*output.dim, *first.dim)):
        return False
    output.dim[-1].dim_value += 1
    return True


def _settings(model: onnx.ModelProto) -> bool:
    helper.set_model_props(model, {"ort_config": '{"session_options": {"intra_op_threads": 2}}'})
    return True


def _stored(model: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
    return {tensor.name: tensor for tensor in model.graph.initializer}


def _held(model: onnx.ModelProto, *ops: str, rank: int = 0) -> tuple[onnx.NodeProto, onnx.TensorProto] | None:
    """The node of these with the largest float weights in the file, of a rank where that is asked for."""
    stored = _stored(model)
    found = [
        (node, stored[node.input[1]])
        for node in model.graph.node
        if node.op_type in ops and len(node.input) > 1 and node.input[1] in stored
    ]
    fit = [
        each
        for each in found
        if each[1].data_type == TensorProto.FLOAT and (not rank or len(each[1].dims) == rank)
    ]
    return max(fit, key=lambda each: np.prod(each[1].dims), default=None)


def _give(model: onnx.ModelProto, **values: Any) -> None:
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), name) for name, a in values.items())


def _behind(model: onnx.ModelProto, node: onnx.NodeProto, pattern: Pattern) -> bool:
    """Puts nodes between a node and all that read it."""
    made, node.output[0] = node.output[0], "planted_in"
    at = list(model.graph.node).index(node) + 1
    for each in reversed(pattern("planted_in", made)):
        model.graph.node.insert(at, each)
    return True


def _behind_product(least: int, pattern: Pattern, **values: Any) -> Plant:
    """The same behind the largest convolution or product, from a version of the operators on."""

    def plant(model: onnx.ModelProto) -> bool:
        found = _held(model, "Conv", "MatMul", "Gemm")
        if found is None or _opset(model) < least:
            return False
        _give(model, **values)
        return _behind(model, found[0], pattern)

    return plant


def _scan(x: str, y: str) -> list[onnx.NodeProto]:
    sides = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("planted_i", "planted_o")
    ]
    body = helper.make_graph(
        [helper.make_node("Relu", ["planted_i"], ["planted_o"])], "body", sides[:1], sides[1:]
    )
    return [helper.make_node("Scan", [x], [y], body=body, num_scan_inputs=1)]


def _branches(x: str, y: str) -> list[onnx.NodeProto]:
    graphs = [
        helper.make_graph(
            [helper.make_node("Identity", [x], [f"planted_{side}"])], side, [],
            [helper.make_tensor_value_info(f"planted_{side}", TensorProto.FLOAT, None)],
        )
        for side in ("then", "else")
    ]  # fmt: skip
    # ONNX Runtime puts the branch in the place of an If whose condition is constant.
    return [
        helper.make_node("ReduceSum", [x], ["planted_sum"], keepdims=0),
        helper.make_node("Cast", ["planted_sum"], ["planted_true"], to=TensorProto.BOOL),
        helper.make_node("If", ["planted_true"], [y], then_branch=graphs[0], else_branch=graphs[1]),
    ]


def _gelu(x: str, y: str) -> list[onnx.NodeProto]:
    return [
        helper.make_node("Div", [x, "planted_root"], ["planted_d"]),
        helper.make_node("Erf", ["planted_d"], ["planted_e"]),
        helper.make_node("Add", ["planted_e", "planted_one"], ["planted_a"]),
        helper.make_node("Mul", ["planted_a", "planted_half"], ["planted_m"]),
        helper.make_node("Mul", [x, "planted_m"], [y]),
    ]


_NUMBERS = {
    "planted_root": np.float32(2**0.5), "planted_root_of_half": np.float32(0.5**0.5), "planted_zero": np.float32(0),
    "planted_one": np.float32(1), "planted_half": np.float32(0.5), "planted_two": np.float32(2),
    "planted_three": np.float32(3), "planted_minus": np.float32(-3), "planted_six": np.float32(6),
    "planted_sixth": np.float32(1 / 6), "planted_k": np.float32((2 / np.pi) ** 0.5),
    "planted_cube": np.float32(0.044715),
}  # fmt: skip


def _lines(text: str) -> Pattern:
    """Nodes as lines "a = Op b c", where x is what goes in, y what comes out, and numbers go by their names."""

    def pattern(x: str, y: str) -> list[onnx.NodeProto]:
        ends = {"x": x, "y": y}

        def name(each: str) -> str:
            return ends.get(each) or f"planted_{each}"

        made = []
        for line in text.split("; "):
            to, _, kind, *given = line.split()
            kind, _, attribute = kind.partition(":")
            given = [] if given == ["-"] else given
            attributes = {"to": int(attribute)} if attribute else {}
            made.append(helper.make_node(kind, [name(each) for each in given], [name(to)], **attributes))
        return made

    return pattern


def _form(text: str, least: int = 11) -> Plant:
    """A function written out in one form, behind the largest product."""
    numbers = {name: a for name, a in _NUMBERS.items() if name.removeprefix("planted_") in text.split()}
    numbers |= {
        name: a for name, a in _NUMBERS.items() if f"{name.removeprefix('planted_')};" in text.split()
    }
    return _behind_product(least, _lines(text), **numbers)


GELUS = (
    "d = Div x root; e = Erf d; a = Add e one; m = Mul a half; y = Mul m x",
    "d = Mul x root_of_half; e = Erf d; a = Add one e; m = Mul x a; y = Mul half m",
    "d = Div x root; e = Erf d; m = Mul e half; a = Add m half; y = Mul x a",
    "n = Neg x; d = Div n root; e = Erf d; a = Sub one e; m = Mul x half; y = Mul m a",
    "d = Div x root; n = Neg d; e = Erf n; a = Sub one e; m = Mul x a; y = Mul half m",
    "q = Sqrt two; d = Div x q; e = Erf d; a = Add e one; m = Mul half a; y = Mul x m",
    "d = Div x root; e = Erf d; a = Add e one; m = Mul x a; y = Div m two",
    "c = Mul x x; e = Mul x c; g = Mul e cube; s = Add x g; t = Mul s k; h = Tanh t; a = Add h one; "
    "m = Mul a half; y = Mul x m",
    "p = Pow x three; g = Mul cube p; s = Add x g; t = Mul k s; h = Tanh t; a = Add one h; m = Mul x a; y = Mul m half",
    "c = Mul x x; g = Mul c cube; a = Add g one; s = Mul x a; t = Mul s k; h = Tanh t; b = Add h one; m = Mul x half; "
    "y = Mul m b",
)
HARD_SWISHES = (
    "a = Add x three; c = Clip a zero six; m = Mul x c; y = Div m six",
    "a = Add three x; c = Clip a zero six; m = Mul c x; y = Mul m sixth",
    "a = Add x three; c = Clip a zero six; d = Div c six; y = Mul x d",
    "d = Div x six; a = Add x three; c = Clip a zero six; y = Mul d c",
    "a = Add x three; l = Max a zero; c = Min l six; m = Mul x c; y = Div m six",
    "a = Add x three; l = Min a six; c = Max l zero; d = Mul c sixth; y = Mul d x",
    "a = Sub x minus; r = Relu a; c = Min r six; d = Div c six; y = Mul x d",
    "d = Mul x sixth; a = Add d half; c = Clip a zero one; y = Mul x c",
    "a = Add x three; d = Div a six; c = Clip d zero one; y = Mul c x",
    "a = Add x three; c = Clip a zero six; y = Div c six",
)
CASTS = (
    "h = Cast:10 x; y = Cast:1 h",
    "h = Cast:16 x; y = Cast:1 h",
    "h = Cast:10 x; i = Identity h; y = Cast:1 i",
    "h = Cast:10 x; t = Transpose h; u = Transpose t; y = Cast:1 u",
    "i = Identity x; h = Cast:10 i; j = Identity h; g = Identity j; y = Cast:1 g",
)


def _unrolled_cell(cell: str) -> Plant:
    """Twenty steps of a cell, beside the model, in one of the forms that exporters give it."""

    def plant(model: onnx.ModelProto) -> bool:
        opset = _opset(model)
        if opset < 10:
            return False
        made = written_out(cell, steps=20, opset=opset, all_states=True).graph
        names = {v for node in made.node for v in (*node.input, *node.output)}
        names |= {tensor.name for tensor in made.initializer}  # of some versions nothing reads one of them
        called = {name: f"planted_{name}" for name in names if name}
        for node in made.node:
            node.name = f"planted_{node.name}"
            for values in (node.input, node.output):
                values[:] = [called.get(v, v) for v in values]
        for each in (*made.initializer, *made.input, *made.output):
            each.name = called[each.name]
        model.graph.node.extend(made.node)
        model.graph.initializer.extend(made.initializer)
        model.graph.input.extend(made.input)
        model.graph.output.extend(made.output)
        return True

    return plant


def _hard_swish(x: str, y: str) -> list[onnx.NodeProto]:
    return [
        helper.make_node("Add", [x, "planted_three"], ["planted_a"]),
        helper.make_node("Clip", ["planted_a", "planted_zero", "planted_six"], ["planted_c"]),
        helper.make_node("Mul", [x, "planted_c"], ["planted_m"]),
        helper.make_node("Div", ["planted_m", "planted_six"], [y]),
    ]


def _residual(x: str, y: str) -> list[onnx.NodeProto]:
    return [
        helper.make_node("Neg", [x], ["planted_n"]),
        helper.make_node("Add", [x, "planted_n"], ["planted_s"]),
        helper.make_node("LayerNormalization", ["planted_s", "planted_scale"], ["planted_l"]),
        helper.make_node("Add", ["planted_l", "planted_s"], [y]),
    ]


def _scaled(model: onnx.ModelProto) -> bool:
    """One number, where no convolution before it takes that up."""
    found = _held(model, "Conv")
    if found is None or any(found[0].input[0] in n.output for n in model.graph.node if n.op_type == "Conv"):
        return False
    node = found[0]
    _give(model, planted_scale=np.float32(0.5))
    _before(model, node, helper.make_node("Mul", [node.input[0], "planted_scale"], ["planted_scaled"]))
    node.input[0] = "planted_scaled"
    return True


def _wide_bias(model: onnx.ModelProto) -> bool:
    """Beside a product of three axes or more: with two, a row is a bias like any other."""
    found = _held(model, "MatMul", rank=2)
    known = onnx.shape_inference.infer_shapes(model).graph
    ranks = {v.name: len(v.type.tensor_type.shape.dim) for v in (*known.value_info, *known.input)}
    if found is None or ranks.get(found[0].input[0], 0) < 3:
        return False
    _give(model, planted_bias=np.ones((1, 1, found[1].dims[1]), np.float32))
    return _behind(model, found[0], lambda x, y: [helper.make_node("Add", [x, "planted_bias"], [y])])


def _given_out(model: onnx.ModelProto) -> bool:
    """What a convolution gives before its activation, as an output."""
    given = {
        node.input[0] for node in model.graph.node if node.op_type in ("Relu", "BatchNormalization", "Clip")
    }
    outputs = {value.name for value in model.graph.output}
    made = [node.output[0] for node in model.graph.node if node.op_type == "Conv"]
    found = next((name for name in made if name in given - outputs), None)
    if found is not None:
        model.graph.output.append(helper.make_tensor_value_info(found, TensorProto.FLOAT, None))
    return found is not None


def _sizes(model: onnx.ModelProto) -> bool:
    if not _open_size(model) or _opset(model) < 13:
        return False
    _give(model, planted_first=np.array(0), planted_axis=np.array([0]), planted_four=np.array(4))
    steps = (
        ("Gather", "planted_first"),
        ("Mul", "planted_four"),
        ("Add", "planted_four"),
        ("Unsqueeze", "planted_axis"),
    )
    nodes, last = [helper.make_node("Shape", [model.graph.input[0].name], ["planted_shape"])], "planted_shape"
    for i, (op, other) in enumerate(steps):
        nodes.append(helper.make_node(op, [last, other], [f"planted_size_{i}"]))
        last = f"planted_size_{i}"
    model.graph.node.extend(nodes)
    model.graph.output.append(helper.make_tensor_value_info(last, TensorProto.INT64, [1]))
    return True


def _fused(operator: str) -> Plant:
    """An operator and the Relu behind it, as ONNX Runtime fuses them for the CPU."""

    def plant(model: onnx.ModelProto) -> bool:
        node = _first(model, operator)
        if node is None:
            return False
        node.op_type, node.domain = f"Fused{operator}", "com.microsoft"
        node.attribute.append(helper.make_attribute("activation", "Relu"))
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        return True

    return plant


def _blocked(model: onnx.ModelProto) -> bool:
    node = _first(model, "Conv")
    if node is not None:
        node.domain = "com.microsoft.nchwc"
        model.opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    return node is not None


def _fused_residual(model: onnx.ModelProto) -> bool:
    node = _first(model, "FusedConv") if _fused("Conv")(model) else None
    if node is not None:
        node.input.extend([""] * (3 - len(node.input)) + [node.input[0]])
    return node is not None


def _integers(model: onnx.ModelProto) -> bool:
    """Places of words, of which the next are computed."""
    model.graph.input.append(helper.make_tensor_value_info("planted_ids", TensorProto.INT64, [1, 8]))
    model.graph.output.append(helper.make_tensor_value_info("planted_next", TensorProto.INT64, None))
    _give(model, planted_one=np.array([1]))
    model.graph.node.append(helper.make_node("Add", ["planted_ids", "planted_one"], ["planted_next"]))
    return True


def _one_hot(model: onnx.ModelProto) -> bool:
    """A table that is looked up by a product."""
    if _opset(model) < 12:
        return False
    model.graph.input.append(helper.make_tensor_value_info("planted_ids", TensorProto.INT32, [1, 8, 1]))
    model.graph.output.append(helper.make_tensor_value_info("planted_rows", TensorProto.FLOAT, None))
    _give(model, planted_places=np.arange(32, dtype=np.int32), planted_table=np.ones((32, 4), np.float32))
    model.graph.node.extend(
        [
            helper.make_node("Equal", ["planted_ids", "planted_places"], ["planted_equal"]),
            helper.make_node("Cast", ["planted_equal"], ["planted_code"], to=TensorProto.FLOAT),
            helper.make_node("MatMul", ["planted_code", "planted_table"], ["planted_rows"]),
        ]
    )
    return True


def _product_in_float(model: onnx.ModelProto) -> bool:
    """A MatMul between pairs whose weights nobody quantized."""
    found = _held(model, "MatMul", rank=2)
    if found is None or _opset(model) < 10:
        return False
    _give(model, planted_s=np.float32(0.1), planted_z=np.uint8(0))

    def pair(x: str, y: str) -> list[onnx.NodeProto]:
        rest = ["planted_s", "planted_z"]
        return [
            helper.make_node("QuantizeLinear", [x, *rest], [f"{y}_q"]),
            helper.make_node("DequantizeLinear", [f"{y}_q", *rest], [y]),
        ]

    _before(model, found[0], *pair(found[0].input[0], "planted_x"))
    found[0].input[0] = "planted_x"
    return _behind(model, found[0], pair)


def _open_convolution(model: onnx.ModelProto) -> bool:
    shapes = [value.type.tensor_type.shape for value in model.graph.input]
    is_open = any(not dim.dim_value for shape in shapes for dim in shape.dim)
    return _first(model, "Conv") is not None and (is_open or _open_size(model))


def _layer_norm(model: onnx.ModelProto) -> bool:
    """Over the last axis but one."""
    found = _held(model, "Conv", "MatMul")
    if found is None:
        return False
    in_input = _opset(model) >= 18
    _give(model, planted_two=np.float32(2), planted_eps=np.float32(1e-5))
    if in_input:
        _give(model, planted_axes=np.array([-2], np.int64))

    def mean(x: str, y: str) -> onnx.NodeProto:
        if in_input:
            return helper.make_node("ReduceMean", [x, "planted_axes"], [y])
        return helper.make_node("ReduceMean", [x], [y], axes=[-2])

    def pattern(x: str, y: str) -> list[onnx.NodeProto]:
        return [
            mean(x, "planted_mean"),
            helper.make_node("Sub", [x, "planted_mean"], ["planted_sub"]),
            helper.make_node("Pow", ["planted_sub", "planted_two"], ["planted_pow"]),
            mean("planted_pow", "planted_var"),
            helper.make_node("Add", ["planted_var", "planted_eps"], ["planted_sum"]),
            helper.make_node("Sqrt", ["planted_sum"], ["planted_sqrt"]),
            helper.make_node("Div", ["planted_sub", "planted_sqrt"], [y]),
        ]

    return _behind(model, found[0], pattern)


def _attention(model: onnx.ModelProto) -> bool:
    found = _held(model, "Conv", rank=4)
    if found is None:
        return False
    return _behind(
        model,
        found[0],
        lambda x, y: [
            helper.make_node("Transpose", [x], ["planted_t"], perm=[0, 1, 3, 2]),
            helper.make_node("MatMul", [x, "planted_t"], ["planted_s"]),
            helper.make_node("Softmax", ["planted_s"], ["planted_p"], axis=3),
            helper.make_node("MatMul", ["planted_p", x], [y]),
        ],
    )


def _odd_channels(model: onnx.ModelProto) -> bool:
    found = _held(model, "Conv", rank=4)
    if found is None:
        return False
    channels = found[1].dims[0]
    _give(
        model,
        planted_to=np.ones((17, channels, 1, 1), np.float32),
        planted_from=np.ones((channels, 17, 1, 1), np.float32),
    )
    return _behind(
        model,
        found[0],
        lambda x, y: [
            helper.make_node("Conv", [x, "planted_to"], ["planted_odd"]),
            helper.make_node("Conv", ["planted_odd", "planted_from"], [y]),
        ],
    )


def _unrolled(model: onnx.ModelProto) -> bool:
    found = _held(model, "MatMul", rank=2)
    if found is None:
        return False
    width = found[1].dims[1]
    _give(model, planted_cell=np.eye(width, dtype=np.float32))

    def pattern(x: str, y: str) -> list[onnx.NodeProto]:
        names = [x, *(f"planted_h{i}" for i in range(39)), y]
        made = []
        for i, (before, after) in enumerate(itertools.pairwise(names)):
            made.append(helper.make_node("MatMul", [before, "planted_cell"], [f"planted_c{i}"]))
            made.append(helper.make_node("Tanh", [f"planted_c{i}"], [after]))
        return made

    return _behind(model, found[0], pattern)


def _norm_behind_product(model: onnx.ModelProto) -> bool:
    found = _held(model, "Gemm", rank=2)
    if found is None:
        return False
    turned = any(a.name == "transB" and a.i for a in found[0].attribute)
    ones = np.ones(found[1].dims[0 if turned else 1], np.float32)
    names = [f"planted_{part}" for part in ("scale", "shift", "mean", "variance")]
    _give(model, **dict.fromkeys(names, ones))
    return _behind(model, found[0], lambda x, y: [helper.make_node("BatchNormalization", [x, *names], [y])])


def _cache(model: onnx.ModelProto) -> bool:
    for name, size in (("planted_past", "past"), ("planted_key", 1)):
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, size, 8]))
    model.graph.output.append(
        helper.make_tensor_value_info("planted_present", TensorProto.FLOAT, [1, 2, "total", 8])
    )
    names = ["planted_past", "planted_key"]
    model.graph.node.append(helper.make_node("Concat", names, ["planted_present"], axis=2))
    return True


def _open_size(model: onnx.ModelProto) -> bool:
    shapes = [value.type.tensor_type.shape for value in model.graph.input]
    if any(not dim.dim_value for shape in shapes for dim in shape.dim) or not shapes[0].dim:
        return False
    shapes[0].dim[0].dim_param = "planted"
    return True


def _halves(model: onnx.ModelProto) -> bool:
    found = _held(model, "Conv", "MatMul")
    if found is None:
        return False
    node, stored = found[0], _stored(model)
    if any(name not in stored for name in node.input[1:] if name):
        return False
    for i, name in enumerate(node.input[1:], 1):
        _give(model, **{f"planted_half_{i}": numpy_helper.to_array(stored[name]).astype(np.float16)})
        node.input[i] = f"planted_half_{i}"
    _before(model, node, helper.make_node("Cast", [node.input[0]], ["planted_x"], to=TensorProto.FLOAT16))
    node.input[0] = "planted_x"
    return _behind(model, node, lambda x, y: [helper.make_node("Cast", [x], [y], to=TensorProto.FLOAT)])


def _four_bits(model: onnx.ModelProto) -> bool:
    found = _held(model, "MatMul", rank=2)
    if found is None:
        return False
    node, (rows, columns) = found[0], found[1].dims
    blocks = -(-rows // 32)
    _give(
        model,
        planted_bits=np.zeros((columns, blocks, 16), np.uint8),
        planted_scales=np.ones(columns * blocks, np.float32),
    )
    sizes: dict[str, Any] = {"K": rows, "N": columns, "bits": 4, "block_size": 32}
    made = helper.make_node(
        "MatMulNBits",
        [node.input[0], "planted_bits", "planted_scales"],
        list(node.output),
        domain="com.microsoft",
        **sizes,
    )
    node.CopyFrom(made)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return True


def _four_bits_of_halves(model: onnx.ModelProto) -> bool:
    if not _four_bits(model):
        return False
    node = next(each for each in model.graph.node if each.op_type == "MatMulNBits")
    scales = next(each for each in model.graph.initializer if each.name == "planted_scales")
    scales.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(scales).astype(np.float16), scales.name))
    _before(model, node, helper.make_node("Cast", [node.input[0]], ["planted_x"], to=TensorProto.FLOAT16))
    node.input[0] = "planted_x"
    return _behind(model, node, lambda x, y: [helper.make_node("Cast", [x], [y], to=TensorProto.FLOAT)])


def _functions(model: onnx.ModelProto) -> bool:
    """As many calls as make eight times the nodes."""
    found = _held(model, "Conv", "MatMul", "Gemm")
    if found is None:
        return False
    imports = [helper.make_opsetid("", _opset(model)), helper.make_opsetid("planted", 1)]
    for name, op, domain in (("cell", "Relu", ""), ("block", "cell", "planted")):
        lines = [helper.make_node(op, [f"h{i}"], [f"h{i + 1}"], domain=domain) for i in range(40)]
        model.functions.append(helper.make_function("planted", name, ["h0"], ["h40"], lines, imports))
    model.opset_import.append(imports[1])
    model.ir_version = max(8, model.ir_version)
    calls = max(8, 8 * (len(model.graph.node) + 100) // 1500)

    def pattern(x: str, y: str) -> list[onnx.NodeProto]:
        names = [x, *(f"planted_f{i}" for i in range(calls - 1)), y]
        return [helper.make_node("block", [a], [b], domain="planted") for a, b in itertools.pairwise(names)]

    return _behind(model, found[0], pattern)


def _places(model: onnx.ModelProto) -> bool:
    found = _held(model, "Conv", "MatMul", "Gemm")
    if found is None:
        return False
    model.graph.node.append(helper.make_node("NonZero", [found[0].output[0]], ["planted_places"]))
    model.graph.output.append(helper.make_tensor_value_info("planted_places", TensorProto.INT64, None))
    return True


def _old(model: onnx.ModelProto) -> bool:
    if _opset(model) < 13:
        return False
    for each in model.opset_import:
        if each.domain in ("", "ai.onnx"):
            each.version = 12
    return True


def _copy(model: onnx.ModelProto) -> bool:
    """A second copy of the largest weights, and a node that reads it."""
    found = _held(model, "Conv", "MatMul", "Gemm")
    if found is None or len(numpy_helper.to_array(found[1]).tobytes()) < 1 << 16:
        return False
    node, tensor = found
    _give(model, planted_copy=numpy_helper.to_array(tensor))
    second = onnx.NodeProto()
    second.CopyFrom(node)
    second.name, second.input[1], second.output[0] = "planted_second", "planted_copy", "planted_twice"
    return _behind(model, node, lambda x, y: [second, helper.make_node("Max", [x, "planted_twice"], [y])])


def _widened(model: onnx.ModelProto) -> bool:
    found = _held(model, "Conv", "MatMul", "Gemm")
    if found is None or np.prod(found[1].dims) < 1024:
        return False
    _give(model, planted_half=numpy_helper.to_array(found[1]).astype(np.float16))
    _before(
        model, found[0], helper.make_node("Cast", ["planted_half"], ["planted_wide"], to=TensorProto.FLOAT)
    )
    found[0].input[1] = "planted_wide"
    return True


def _double(x: str, y: str) -> list[onnx.NodeProto]:
    return [
        helper.make_node("Cast", [x], ["planted_double"], to=TensorProto.DOUBLE),
        helper.make_node("Relu", ["planted_double"], ["planted_relu"]),
        helper.make_node("Cast", ["planted_relu"], [y], to=TensorProto.FLOAT),
    ]


def _raw(model: onnx.ModelProto) -> bool:
    """As bytes, which is how they can be put beside the model."""
    held = [a.t for node in model.graph.node for a in node.attribute if a.HasField("t")]
    for tensor in (*model.graph.initializer, *held):
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    return True


def _one_way(model: onnx.ModelProto) -> bool:
    """Whether all its large operators stand one after another: then nothing can run at once."""
    depth: dict[str, int] = {}
    total = longest = 0
    for node in model.graph.node:
        large = node.op_type in ("Conv", "Gemm", "MatMul", "LSTM")
        here = large + max((depth.get(name, 0) for name in node.input), default=0)
        total, longest = total + large, max(longest, here)
        depth.update(dict.fromkeys(node.output, here))
    return 0 < total == longest


def _given(provider: str, **options: str) -> Plan:
    """Options of a provider."""
    return Plan(providers=(ProviderSpec(name=provider, options=options),))


def _page(code: str, *providers: str, right: Plan = DEFAULT, **settings: Value) -> Defect:
    """A setting of onnxruntime-web that is wrong."""
    chain = tuple(ProviderSpec(name=name) for name in providers)
    plan = Plan(settings=settings, providers=chain)
    return Defect(code=code, plan=plan, target=f"web-{providers[0]}", right=right)


DEFECTS = {
    "initializers as graph inputs": Defect(code="GRA002", plant=_listed_weights, respelled=False),
    "float16 and back": Defect(code="PRC004", plant=_round_trip),
    "an unused node": Defect(code="GRA007", plant=_dead),
    "batch normalisation in training": Defect(code="GRA008", plant=_norm),
    "a large constant built at load": Defect(code="MEM002", plant=_table),
    "unused weights": Defect(code="MEM003", plant=_unused),
    "denormal weights": Defect(code="PRC005", plant=_denormal),
    "dynamic quantization of a Conv": Defect(code="QNT002", plant=_integer),
    "unsigned weights": Defect(code="QNT003", plant=_pairs(unsigned=True, closed=True)),
    "a Conv left in float": Defect(code="QNT004", plant=_pairs(unsigned=False, closed=False)),
    "a wrong size declared": Defect(code="SHP003", plant=_wrong_size),
    "a misspelt setting in the file": Defect(code="SES003", plant=_settings),
    "level basic": Defect(code="SES002", plan=Plan(settings={"graph_optimization_level": "basic"})),
    "threads without work": Defect(code="THR003", plan=Plan(settings={"inter_op_num_threads": 8})),
    "control flow": Defect(code="GRA003", plant=_behind_product(1, _branches)),
    "an old opset": Defect(code="GRA004", plant=_old, respelled=False),
    "a loop of a small node": Defect(code="GRA009", plant=_behind_product(9, _scan)),
    "forty steps written out": Defect(code="GRA010", plant=_unrolled),
    "layer normalisation over another axis": Defect(code="GRA011", plant=_layer_norm),
    "a written-out Gelu": Defect(
        code="GRA012",
        plant=_behind_product(
            9, _gelu, planted_root=np.float32(2**0.5), planted_one=np.float32(1), planted_half=np.float32(0.5)
        ),
    ),
    "written-out attention": Defect(code="GRA013", plant=_attention),
    "batch normalisation after a Gemm": Defect(code="GRA014", plant=_norm_behind_product),
    "seventeen channels": Defect(code="LAY005", plant=_odd_channels),
    "a cache that is copied": Defect(code="LLM001", plant=_cache),
    "duplicate weights": Defect(code="MEM001", plant=_copy),
    "an open size for NNAPI": Defect(code="MOB001", plant=_open_size, target="nnapi"),
    "16-bit weights cast to float32": Defect(code="PRC001", plant=_widened),
    "float64": Defect(code="PRC002", plant=_behind_product(1, _double)),
    "float16 on a CPU": Defect(code="PRC003", plant=_halves),
    "QDQ pairs": Defect(code="QNT001", plant=_pairs(unsigned=False, closed=True)),
    "4 bits computed in float": Defect(code="QNT005", plant=_four_bits),
    "8 bits on a GPU": Defect(code="QNT006", plant=_integer, target="cuda"),
    "fusion of QDQ pairs disabled": Defect(
        code="QNT007",
        plant=_pairs(unsigned=False, closed=True),
        plan=Plan(settings={"disable_quant_qdq": True}),
    ),
    "float16 before 4 bits": Defect(code="QNT008", plant=_four_bits_of_halves),
    "nested functions": Defect(code="GRA015", plant=_functions, respelled=False),
    "external data": Defect(code="SES001", plant=_raw, external=True),
    "more threads than CPUs": Defect(code="THR001", plan=Plan(settings={"intra_op_num_threads": 64})),
    "parallel execution of a chain": Defect(
        code="THR004", plant=_one_way, plan=Plan(settings={"execution_mode": "parallel"})
    ),
    "a scale before a convolution": Defect(code="GRA016", plant=_scaled),
    "a written-out HardSwish": Defect(
        code="GRA017",
        plant=_behind_product(
            11,
            _hard_swish,
            planted_three=np.float32(3),
            planted_zero=np.float32(0),
            planted_six=np.float32(6),
        ),
    ),
    "a sum read twice before its normalisation": Defect(
        code="GRA020", plant=_behind_product(17, _residual, planted_scale=np.ones(1, np.float32))
    ),
    "a bias of three axes": Defect(code="GRA021", plant=_wide_bias),
    "a convolution that is also an output": Defect(code="GRA022", plant=_given_out),
    "sizes computed at each call": Defect(code="SHP004", plant=_sizes),
    "CPU threads with a GPU": Defect(
        code="THR005", target="cuda", right=Plan(settings={"intra_op_num_threads": 1})
    ),
    "convolutions of open size on CUDA": Defect(
        code="CUD001",
        plant=_open_convolution,
        target="cuda",
        right=_given("CUDAExecutionProvider", cudnn_conv_algo_search="HEURISTIC"),
    ),
    "a convolution with CPU fusion": Defect(code="MOB002", plant=_fused("Conv"), target="nnapi"),
    "an engine that is not cached": Defect(
        code="CUD002",
        target="tensorrt",
        right=_given("TensorrtExecutionProvider", trt_engine_cache_enable="1"),
    ),
    "an engine without shape ranges": Defect(code="CUD003", plant=_open_size, target="tensorrt"),
    "operators without a shader": Defect(code="WEB001", plant=_places, target="webgpu"),
    "a MatMul left in float": Defect(code="QNT010", plant=_product_in_float),
    "a table lookup as a one-hot product": Defect(code="GRA018", plant=_one_hot),
    "a blocked layout": Defect(code="LAY003", plant=_blocked),
    "a blocked layout in a browser": Defect(code="WEB005", plant=_blocked, target="web-wasm"),
    "a product with CPU fusion on WebGPU": Defect(code="WEB002", plant=_fused("Gemm"), target="web-webgpu"),
    "a convolution and a sum with CPU fusion on WebGPU": Defect(
        code="WEB004", plant=_fused_residual, target="web-webgpu"
    ),
    "integers on WebGPU": Defect(code="WEB006", plant=_integers, target="web-webgpu"),
    "a cache read back from WebGPU": Defect(code="WEB017", plant=_cache, target="web-webgpu"),
    "graph capture with dynamic dimensions": Defect(
        code="PLC004",
        plant=_open_size,
        plan=_given("CUDAExecutionProvider", enable_cuda_graph="1"),
        target="cuda",
    ),
    "graph capture that the build ignores": _page(
        "WEB009", "webgpu", web_build="asyncify", web_graph_capture=True, web_provider_form="string"
    ),
    "profiling that the build ignores": _page(
        "WEB010", "webgpu", web_build="asyncify", web_profiling="default"
    ),
    "threads without cross-origin isolation": _page("WEB011", "wasm", web_threads=4, web_isolation=False),
    "a fallback that nobody is told of": _page("WEB012", "webgpu", "wasm"),
    "inputs moved by the proxy": _page("WEB013", "wasm", web_proxy=True),
    "a deprecated build": _page(
        "WEB014", "webgpu", right=Plan(settings={"web_build": "asyncify"}), web_build="jsep"
    ),
    "a build larger than needed": _page(
        "WEB015", "wasm", right=Plan(settings={"web_build": "wasm"}), web_build="jspi"
    ),
}
DEFECTS |= {
    f"a Gelu, form {i}": Defect(code="GRA012", plant=_form(text, 9)) for i, text in enumerate(GELUS, 1)
}
DEFECTS |= {
    f"a HardSwish, form {i}": Defect(code="GRA017", plant=_form(text))
    for i, text in enumerate(HARD_SWISHES, 1)
}
DEFECTS |= {
    f"casts, form {i}": Defect(code="PRC004", plant=_form(text, 13 if "Cast:16" in text else 9))
    for i, text in enumerate(CASTS, 1)
}
DEFECTS |= {f"unrolled: {cell}": Defect(code="GRA010", plant=_unrolled_cell(cell)) for cell in CELLS}


# --- defects beside the model ----------------------------------------------------------------------------------------


def _beside(text: str, least: int = 9, most: int = 99, **values: Any) -> Plant:
    """Lines "a = Op b c" beside the model, from an input ``x`` to an output ``y``; ``values`` are constants.

    Args:
        text: The nodes; an attribute stands behind the operator, as "Op:name=1".
        least, most: The versions of the operators that they belong to.
        values: By the names in the text; a tuple of sizes, or of a type and sizes, stands for an input.
    """

    def plant(model: onnx.ModelProto) -> bool:
        if not least <= _opset(model) <= most:
            return False
        for name, value in values.items():
            if isinstance(value, tuple):
                kind, sizes = value if isinstance(value[0], str) else ("FLOAT", value)
                tensor = helper.make_tensor_value_info(
                    f"planted_{name}", TensorProto.DataType.Value(kind), sizes
                )
                model.graph.input.append(tensor)
            else:
                _give(model, **{f"planted_{name}": value})
        for line in text.split("; "):
            outputs, _, right = line.partition(" = ")
            kind, *given = right.split()
            kind, *attributes = kind.split(":")
            pairs = {name: _number(number) for name, _, number in (a.partition("=") for a in attributes)}
            inputs = ["" if each == "-" else f"planted_{each}" for each in given]
            if kind == "Unsqueeze" and _opset(model) < 13:
                pairs["axes"] = [int(axis) for axis in np.ravel(values[given[1]])]
                del inputs[1:]
            model.graph.node.append(
                helper.make_node(kind, inputs, [f"planted_{each}" for each in outputs.split()], **pairs)
            )
        model.graph.output.append(helper.make_empty_tensor_value_info("planted_y"))
        return True

    return plant


def _number(text: str) -> int | float | str | list[int]:
    if "->" in text:
        return text
    if "," in text:
        return [int(each) for each in text.split(",") if each]
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def _random(*shape: int, kind: type = np.float32) -> np.ndarray:
    values = np.random.default_rng(len(shape)).standard_normal(shape) * 40
    return values.astype(kind) if kind is np.float32 else values.clip(-60, 60).astype(kind)


_ZERO, _MIDDLE = np.uint8(128), np.int8(0)
_PAIR = {
    "sx": np.float32(0.5),
    "zx": _ZERO,
    "sw": np.float32(0.25),
    "zw": _MIDDLE,
    "sy": np.float32(1.5),
    "zy": _ZERO,
}
_AROUND = "q = QuantizeLinear x sx zx; d = DequantizeLinear q sx zx; dw = DequantizeLinear w sw zw; "
_CLOSED = "; c = QuantizeLinear p sy zy; y = DequantizeLinear c sy zy"
_SQUARE = {"x": (8, 16), "w": _random(16, 16, kind=np.int8), **_PAIR}
_IMAGE = {"x": (1, 16, 8, 8), "w": _random(16, 16, 3, 3, kind=np.int8), **_PAIR}


def _unlike(*shape: int) -> np.ndarray:
    """Weights of channels of which one in four has next to nothing."""
    weights = _random(*shape, kind=np.int8)
    weights[::4] = np.sign(weights[::4])
    weights[1] = 127
    return weights


def _lstm(hidden: int) -> Plant:
    """An LSTM that is quantized dynamically, beside the model."""

    def plant(model: onnx.ModelProto) -> bool:
        inputs = "x w r - - - - - s z s z"
        text = f"y = DynamicQuantizeLSTM:hidden_size={hidden} {inputs}"
        planted = _beside(
            text, x=(5, 1, 4), w=_random(1, 4, 4 * hidden, kind=np.int8), s=np.ones(1, np.float32),
            r=_random(1, hidden, 4 * hidden, kind=np.int8), z=np.zeros(1, np.int8),
        )(model)  # fmt: skip
        if planted:
            model.graph.node[-1].domain = "com.microsoft"
            if all(each.domain != "com.microsoft" for each in model.opset_import):
                model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        return planted

    return plant


def _list_in_a_loop(model: onnx.ModelProto) -> bool:
    if _opset(model) < 13:
        return False
    rule = all_rules()["GRA024"].bad
    assert rule is not None
    made = rule().graph
    names = {value for node in made.node for value in (*node.input, *node.output) if value}
    called = {name: f"planted_{name}" for name in (*names, *(value.name for value in made.input))}
    for node in made.node:
        node.name = f"planted_{node.name}"
        for values in (node.input, node.output):
            values[:] = [called.get(v, v) for v in values]
        for inner in (n for a in node.attribute for n in a.g.node):
            inner.input[:] = [called["x"] if v == "x" else v for v in inner.input]
    for each in (*made.input, *made.output):
        each.name = called[each.name]
    model.graph.node.extend(made.node)
    model.graph.input.extend(made.input)
    model.graph.output.extend(made.output)
    return True


def _threads_of_the_model(model: onnx.ModelProto) -> bool:
    helper.set_model_props(model, {"ort_config": '{"session_options": {"intra_op_num_threads": 512}}'})
    return True


_ROWS = {
    "x": (6, 4),
    "zeros": np.zeros((8, 4), np.float32),
    "shape": np.array([6, 4]),
    "column": np.array([6, 1]),
}
_INDEX = np.arange(6)
BESIDE: dict[str, tuple[str, Sequence[Plant]]] = {
    "a bias with another scale": (
        "QNT011",
        (
            _beside(f"{_AROUND}db = DequantizeLinear b sb; p = Gemm d dw db{_CLOSED}", 10, **_SQUARE,
                    b=np.arange(16, dtype=np.int32), sb=np.float32(0.01)),
            _beside(f"{_AROUND}db = DequantizeLinear b sb; p = Conv:pads=1,1,1,1 d dw db{_CLOSED}", 10, **_IMAGE,
                    b=np.arange(16, dtype=np.int32), sb=np.float32(0.01)),
            _beside(
                f"{_AROUND}f = Identity d; g = Reshape f rows; db = DequantizeLinear b sb; p = Gemm g dw db{_CLOSED}",
                10, **_SQUARE, b=np.arange(16, dtype=np.int32), sb=np.float32(0.01), rows=np.array([8, 16]),
            ),
        ),
    ),
    "a Gemm with alpha": (
        "QNT010",
        (
            _beside(f"{_AROUND}db = DequantizeLinear b sb; p = Gemm:alpha=2.0 d dw db{_CLOSED}", 10, **_SQUARE,
                    b=np.arange(16, dtype=np.int32), sb=np.float32(0.125)),
        ),
    ),
    "a product after a Flatten": (
        "QNT010",
        (
            _beside(f"{_AROUND}f = Flatten d; p = MatMul f dw{_CLOSED}", 10, **_SQUARE),
            _beside(f"{_AROUND}f = Flatten:axis=-1 d; p = Gemm:transB=1 f dw{_CLOSED}", 11, **_SQUARE),
        ),
    ),
    "a bias at the limits of its range": (
        "QNT012",
        (
            _beside(f"{_AROUND}db = DequantizeLinear b sb; p = Gemm d dw db{_CLOSED}", 10, **_SQUARE,
                    b=np.full(16, 2**31 - 1, np.int32), sb=np.float32(0.125)),
            _beside(f"{_AROUND}db = DequantizeLinear b sb; p = Conv d dw db{_CLOSED}", 10, **_IMAGE,
                    b=np.full(16, -(2**31) + 1, np.int32), sb=np.float32(0.125)),
        ),
    ),
    "different channels under one scale": (
        "QNT014",
        (
            _beside(f"{_AROUND}p = Conv d dw{_CLOSED}", 10, **{**_IMAGE, "w": _unlike(16, 16, 3, 3)}),
            _beside(f"{_AROUND}p = MatMul d dw{_CLOSED}", 10, **{**_SQUARE, "w": _unlike(16, 16).T.copy()}),
            _beside(f"{_AROUND}p = Gemm:transB=1 d dw{_CLOSED}", 10, **{**_SQUARE, "w": _unlike(16, 16)}),
            _beside("q s z = DynamicQuantizeLinear x; y = ConvInteger q w z", 11, x=(1, 16, 8, 8),
                    w=_unlike(16, 16, 3, 3)),
        ),
    ),
    "weights dequantized at each call": (
        "QNT013",
        (
            _beside("dw = DequantizeLinear w sw zw; y = Conv x dw", 10, x=(1, 16, 8, 8),
                    w=_random(16, 16, 3, 3, kind=np.int8), sw=np.float32(0.25), zw=_MIDDLE),
            _beside("dw = DequantizeLinear w sw; y = ConvTranspose x dw", 10, x=(1, 16, 8, 8),
                    w=_random(16, 8, 2, 2, kind=np.int8), sw=np.float32(0.25)),
        ),
    ),
    "a small LSTM quantized in every step": ("QNT016", (_lstm(8), _lstm(32))),
    "a weight of minus infinity": (
        "PRC006",
        (
            _beside("y = Mul x low", x=(4, 8), low=np.float32(-np.inf)),
            _beside("m = Sub one x; y = Mul low m", x=(4, 8), low=np.float32(-np.inf), one=np.float32(1)),
        ),
    ),
    "large tensors in int64": (
        "PRC007",
        (
            _beside("i = Cast:to=7 x; p = CumSum i axis; t = Transpose:perm=1,0 p; l = Less p t; y = Cast:to=1 l", 11,
                    x=("BOOL", (1, 512)), axis=np.array(1)),
            _beside("i = Cast:to=7 x; l = Less i wide; y = Cast:to=1 l", x=("INT32", (512, 512)),
                    wide=np.array(3)),
        ),
    ),
    "rows scattered by elements": (
        "GRA023",
        (
            _beside("u = Unsqueeze index one; e = Expand u shape; y = ScatterElements:axis=0 zeros e x", 11, **_ROWS,
                    index=("INT64", (6,)), one=np.array([1])),
            _beside("u = Reshape index column; e = Expand u shape; y = ScatterElements:axis=0 zeros e x", 11, **_ROWS,
                    index=("INT64", (6,))),
            _beside("e = Tile index times; y = ScatterElements zeros e x", 11, **_ROWS, index=("INT64", (6, 1)),
                    times=np.array([1, 4])),
        ),
    ),
    "a list that grows in a loop": ("GRA024", (_list_in_a_loop,)),
    "a spectrum of an odd length": (
        "GRA025",
        (
            _beside("y = STFT x step - length", 17, x=(1, 400, 1), step=np.array(50), length=np.array(100)),
            _beside("y = STFT x step window", 17, x=(1, 400, 1), step=np.array(50),
                    window=np.ones(100, np.float32)),
            _beside("y = DFT:axis=1 x length", 17, 19, x=(1, 100, 1), length=np.array(100)),
            _beside("y = DFT x length", 20, x=(1, 100, 1), length=np.array(100)),
        ),
    ),
    "non-maximum suppression without a threshold": (
        "GRA026",
        (
            _beside("y = NonMaxSuppression boxes x most overlap", 10, x=(1, 2, 16), boxes=_random(1, 16, 4),
                    most=np.array([8]), overlap=np.float32([0.5])),
            _beside("y = NonMaxSuppression:center_point_box=1 x scores most", 10, x=(1, 16, 4),
                    scores=_random(1, 2, 16), most=np.array([8])),
        ),
    ),
    "1-D convolutions": (
        "LAY006",
        (
            _beside("h = Conv x w; y = Conv h w", x=(1, 16, 64), w=_random(16, 16, 3)),
            _beside("h = Conv:pads=1,1 x w b; r = Relu h; y = Conv:strides=2, r w", x=(1, 16, 64),
                    w=_random(16, 16, 3), b=_random(16)),
        ),
    ),
    "an Einsum that is a product": (
        "GRA027",
        tuple(
            _beside(f"y = Einsum:equation={equation} x {' '.join(f'w{i}' for i in range(len(shapes)))}", 12,
                    x=(2, 3, 4), **{f"w{i}": _random(*shape) for i, shape in enumerate(shapes)})
            for equation, shapes in (
                ("abc,cd->abd", ((4, 5),)), ("abc,acd->abd", ((2, 4, 5),)), ("abc,adc->adb", ((2, 5, 4),)),
                ("abc,abc->ab", ((2, 3, 4),)), ("abc,bcd->ad", ((3, 4, 5),)), ("abc,cd,de->abe", ((4, 5), (5, 6))),
                ("abc,ad,dc->ab", ((2, 5), (5, 4))), ("abc,cd,d->ab", ((4, 5), (5,))),
            )
        ),
    ),
    "more threads in the model than CPUs": ("SES003", (_threads_of_the_model,)),
}  # fmt: skip
for title, (code, forms) in BESIDE.items():
    for number, form in enumerate(forms, 1):
        DEFECTS[f"{title}, form {number}" if len(forms) > 1 else title] = Defect(code=code, plant=form)


# --- spellings -------------------------------------------------------------------------------------------------------

_SWAPPED = ("Add", "Mul", "Max", "Min")
_SMALL = 64  # numbers of a constant that exporters write as a node or as an initializer


def _swap(model: onnx.ModelProto) -> None:
    """Operands in the other order, where there is none."""
    for node in model.graph.node:
        if node.op_type in _SWAPPED and len(node.input) == 2 and not node.domain:
            node.input[:] = list(node.input)[::-1]


def _as_nodes(model: onnx.ModelProto) -> None:
    """Small initializers as Constant nodes."""
    fed = {value.name for value in model.graph.input}
    small = [t for t in model.graph.initializer if np.prod(t.dims) <= _SMALL and t.name not in fed]
    for tensor in small:
        model.graph.initializer.remove(tensor)
        model.graph.node.insert(0, helper.make_node("Constant", [], [tensor.name], value=tensor))


def _as_initializers(model: onnx.ModelProto) -> None:
    """Constant nodes as initializers."""
    for node in [n for n in model.graph.node if n.op_type == "Constant"]:
        tensor = next((a.t for a in node.attribute if a.name == "value"), None)
        if tensor is not None:
            held = onnx.TensorProto()
            held.CopyFrom(tensor)
            held.name = node.output[0]
            model.graph.initializer.append(held)
            model.graph.node.remove(node)


def _converted(version: int) -> Callable[[onnx.ModelProto], None]:
    """Another version of the operators: attributes become inputs, and others."""

    def spell(model: onnx.ModelProto) -> None:
        model.CopyFrom(onnx.version_converter.convert_version(model, version))

    return spell


def _renamed(model: onnx.ModelProto) -> None:
    """Nodes without names, or with numbers for names."""
    for i, node in enumerate(model.graph.node):
        node.name = f"n{i}"


def _with_shapes(model: onnx.ModelProto) -> None:
    """Sizes of all values declared."""
    model.CopyFrom(onnx.shape_inference.infer_shapes(model))


def _without_shapes(model: onnx.ModelProto) -> None:
    del model.graph.value_info[:]


def _with_copies(model: onnx.ModelProto) -> None:
    """An Identity before every planted node, as tracers leave them."""
    for node in [n for n in model.graph.node if n.output and n.output[0].startswith("planted") and n.input]:
        if node.op_type in ("Constant", "If", "Scan", "Loop") or not node.input[0]:
            continue
        copy = f"{node.output[0]}_copy"
        _before(model, node, helper.make_node("Identity", [node.input[0]], [copy]))
        node.input[0] = copy


def _both(*spellings: Callable[[onnx.ModelProto], None]) -> Callable[[onnx.ModelProto], None]:
    def spell(model: onnx.ModelProto) -> None:
        for each in spellings:
            each(model)

    return spell


VERSIONS = range(9, 23)
"""Versions of the operators in which defects are written from the start, where those have the operators."""


def at_version(model: onnx.ModelProto, version: int) -> onnx.ModelProto | None:
    """The model in another version of the operators; None where it cannot be converted."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    try:
        _converted(version)(made)
    except (RuntimeError, onnx.version_converter.ConvertError):
        return None
    return made


SPELLINGS: dict[str, Callable[[onnx.ModelProto], None]] = {
    "as planted": lambda model: None,
    "operands swapped": _swap,
    "constants as nodes": _as_nodes,
    "constants as initializers": _as_initializers,
    "swapped, as nodes": _both(_swap, _as_nodes),
    "opset 17": _converted(17),
    "opset 21": _converted(21),
    "other names, sizes declared": _both(_renamed, _with_shapes),
    "no sizes, swapped": _both(_without_shapes, _swap),
    "copies between": _with_copies,
}
"""Ways to write the same model."""


def respelled(model: onnx.ModelProto, spelling: str) -> onnx.ModelProto | None:
    """The model written otherwise; None where it cannot be."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    try:
        SPELLINGS[spelling](made)
    except (RuntimeError, onnx.version_converter.ConvertError, onnx.shape_inference.InferenceError):
        return None
    return made
