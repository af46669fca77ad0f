"""No exact rewrite undoes what ONNX Runtime fuses by itself, and what is known of that is true."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from fused_forms import gelu_dynamo, norm_plain, rms_product
from fusion_patterns import FAMILIES, IMAGE, ROW, WIDTH, Form, Pattern, between, swish
from onnx import TensorProto, helper

from graphs import Graph
from onnx_text import assemble
from ortune import rewrites
from ortune.graph import forms, ort_fusions
from ortune.graph.model.open import open_model
from ortune.rules import Facts, find_rule

EXACT = [
    each
    for each in rewrites.all_rewrites().values()
    if each.safety == "exact" and each.change and each.pays("", "cpu")
]
"""Those for the CPU: what is written for NNAPI or CoreML may well undo what only the CPU fuses."""
WHOLE = {
    "Conv", "FastGelu", "Gelu", "Gemm", "HardSigmoid", "LayerNormalization", "MatMul", "MultiHeadAttention",
}  # fmt: skip
"""Operators that a rewrite may make more of: each does at once what several did."""


def optimised(model: onnx.ModelProto, folder: Path) -> Counter[str]:
    """Operators of the graph that ONNX Runtime runs."""
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return Counter(node.op_type for node in onnx.load(folder / "optimised.onnx").graph.node)


def undone(pattern: Pattern, folder: Path) -> list[str]:
    """The rewrites after which more nodes run than before, or parts of what was one operator."""
    plain, before, found = ir.from_proto(pattern.model), Counter[str](), list[str]()
    row = [rewrites.find(spec.name) for spec in rewrites.pipeline(plain)]
    model = plain.clone()
    for names in [*([each] for each in EXACT), row]:
        modified = [each.apply(model).modified for each in names]
        if not any(modified):
            continue
        before = before or optimised(pattern.model, folder)
        after = optimised(ir.to_proto(model), folder)
        model = plain.clone()  # for the next one
        if sum(after.values()) > sum(before.values()) or set(after - before) - WHOLE:
            how = " and ".join(each.name for each in names)
            found.append(f"{how}: {dict(before - after)} -> {dict(after - before)}")
    return found


@pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("shape", "pattern", "sides"),
    [
        pytest.param(shape, pattern, sides, id=f"{pattern.__name__}-{len(shape)}")
        for shape, patterns, sides in FAMILIES
        for pattern in patterns
    ],
)
def test_no_fusion_is_lost(
    shape: tuple[int, ...], pattern: Form, sides: tuple[Form, ...], half: int, tmp_path: Path
) -> None:
    """Between every second pair of neighbours, or between the others."""
    neighbours = itertools.islice(between(shape, pattern, sides), half, None, 2)
    with rewrites.remembering():
        found = {each.name: undone(each, tmp_path) for each in neighbours}
    assert {name: what for name, what in found.items() if what} == {}


def written_out(form: forms.Part, net: Graph) -> str:
    """A form of the table as nodes."""
    if isinstance(form, float):
        return net.number(form)
    if form == forms.ROW:
        return net.positive(WIDTH)
    if form == forms.NUMBER:
        return net.number(1e-3)
    if isinstance(form, str):
        return form
    inputs = [written_out(part, net) for part in form.inputs]
    return net.op(form.kind, *inputs, **({"axes": [-1]} if form.kind == "ReduceMean" else {}))


def graph_of(net: Graph, *outputs: str) -> onnx.ModelProto:
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ROW) for name in ("x", outputs[0])]
    sides += [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs[1:]]
    return assemble(net.nodes, sides[:1], sides[1:], net.weights)


def fused_nodes(model: onnx.ModelProto) -> dict[str, int]:
    """What the table says of each node of a model."""
    found = Counter(ort_fusions.fused(node) for node in ir.from_proto(model).graph)
    return {operator: count for operator, count in found.items() if operator}


@pytest.mark.parametrize("number", range(len(ort_fusions.FUSIONS)))
def test_each_form_of_the_table_is_fused(number: int, tmp_path: Path) -> None:
    operator, form = ort_fusions.FUSIONS[number]
    net = Graph()
    end = written_out(form, net)
    model = graph_of(net, net.op("Neg", end))
    made = optimised(model, tmp_path)
    assert made[operator] == 1 and not {"Erf", "Sigmoid", "Pow", "Sqrt", "Div"} & made.keys()
    # Twice in the table's form means twice in the graph: the sum of what is centred, say.
    assert fused_nodes(model)[operator] >= 1
    (last,) = [node for node in ir.from_proto(model).graph if node.outputs[0].name == end]
    assert ort_fusions.fused(last) == operator


@pytest.mark.parametrize("number", range(len(ort_fusions.FUSIONS)))
def test_a_form_that_is_an_output_of_the_model_is_said_to_be_fused_where_it_is(
    number: int, tmp_path: Path
) -> None:
    operator, form = ort_fusions.FUSIONS[number]
    net = Graph()
    model = graph_of(net, written_out(form, net))
    assert (operator in fused_nodes(model)) == (optimised(model, tmp_path)[operator] == 1)


@pytest.mark.parametrize(
    "form",
    [gelu_dynamo, swish, lambda n, x: norm_plain(n, x, -1, WIDTH, 3), lambda n, x: rms_product(n, x, WIDTH)],
)
def test_other_forms_are_not_said_to_be(form: Form, tmp_path: Path) -> None:
    net = Graph()
    model = graph_of(net, form(net, "x"))
    if {"Gelu", "LayerNormalization", "SimplifiedLayerNormalization"} & optimised(model, tmp_path).keys():
        pytest.fail("ONNX Runtime fuses it by now: the table lacks a form")
    assert fused_nodes(model) == {}


def test_a_second_reader_within_keeps_it_from_being_fused(tmp_path: Path) -> None:
    net = Graph()
    end = written_out(ort_fusions.FUSIONS[0][1], net)
    (erf,) = [node.output[0] for node in net.nodes if node.op_type == "Erf"]
    model = graph_of(net, end, erf)
    assert optimised(model, tmp_path)["Gelu"] == 0
    assert fused_nodes(model) == {}


def scales(model: onnx.ModelProto, folder: Path) -> list[str]:
    """What the rule of scales beside weights marks."""
    onnx.save(model, folder / "m.onnx")
    found = find_rule("GRA016").findings(Facts(model=open_model(folder / "m.onnx")))
    return [name for finding in found for name in finding.where]


@pytest.mark.parametrize("family", FAMILIES[1:], ids=["product", "convolution"])
def test_the_rule_of_scales_says_nothing_of_a_gelu(
    family: tuple[tuple[int, ...], tuple[Form, ...], tuple[Form, ...]], tmp_path: Path
) -> None:
    shape, patterns, sides = family
    gelus = [pattern for pattern in patterns if "gelu" in pattern.__name__]
    assert gelus
    for pattern in gelus:
        behind = [
            each for each in between(shape, pattern, sides[3:4]) if each.name.startswith(pattern.__name__)
        ]
        assert [scales(each.model, tmp_path) for each in behind] == [[]]


def test_the_rule_of_scales_tells_one_before_a_convolution(tmp_path: Path) -> None:
    (pattern, *_) = between(IMAGE, lambda n, x: n.op("Mul", x, n.number(0.5)), FAMILIES[2][2][3:4])
    assert len(scales(pattern.model, tmp_path)) == 1
