"""Costs of whole models: branches, loops, functions, constants, unknown sizes, real topologies."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import psutil
import pytest
from cost_graphs import BRANCHES, W, info, model, weight
from cost_models import count
from onnx import TensorProto as T
from onnx import helper as h

import zoo
from facts import facts
from ortune.errors import InputError
from ortune.graph.cost import costs
from ortune.graph.cost.call import Executions
from ortune.graph.model.extent import written_nodes
from ortune.graph.model.open import open_model
from ortune.inputs import workload
from ortune.rules.graph import inlined_functions


@pytest.mark.parametrize("declared", [(1, 1, 9, 9), (1, 1, "h", "w"), None])
def test_a_computed_size_is_believed_over_a_declared_one(declared):
    # Of GridSample the sizes are known to ONNX's own inference alone.
    nodes = [
        h.make_node("GridSample", ["x", "grid"], ["y"], name="sample"),
        h.make_node("Relu", ["y"], ["z"]),
    ]
    made = model(nodes, [info("x", 1, 1, 4, 4), info("grid", 1, 2, 3, 2)], ["z"])
    if declared:
        made.graph.value_info.append(info("y", *declared))
    cost = count(made, {})
    assert [node.bytes_written for node in cost.nodes] == [4 * 2 * 3, 4 * 2 * 3]


def test_functions_are_inlined_with_their_attributes():
    gemm = onnx.NodeProto(op_type="Gemm", input=["a", "w"], output=["r"], name="g")
    gemm.attribute.append(onnx.AttributeProto(name="transA", type=onnx.AttributeProto.INT))
    gemm.attribute[0].ref_attr_name = "turn"
    function = h.make_function(
        "own", "Layer", ["a", "w"], ["r"], [gemm], [h.make_opsetid("", 17)], attributes=["turn"]
    )
    nodes = [
        h.make_node("Layer", ["x", "w"], ["h"], domain="own", turn=1),
        h.make_node("Layer", ["h", "w"], ["y"], domain="own", turn=0),
    ]
    proto = model(nodes, [info("x", 4, 3)], ["y"], [W], [function])
    # both times 3x4 outputs of 4 multiply-adds
    assert [n.flops for n in count(proto, {}).nodes] == [96, 96]


def test_constants_are_worked_out_once_and_weights_keep_their_type():
    stored = weight("q", np.ones((4, 4), np.int8))
    nodes = [
        h.make_node("DequantizeLinear", ["q", "scale"], ["f"], name="dq"),
        h.make_node("Transpose", ["f"], ["ft"], name="t"),
        h.make_node("MatMul", ["x", "ft"], ["y"], name="mm"),
    ]
    cost = count(model(nodes, [info("x", 3, 4)], ["y"], [stored, weight("scale", np.float32(1))]), {})
    assert [(n.name, n.times) for n in cost.nodes] == [("dq", 0), ("t", 0), ("mm", 1)]
    # 48 multiply-adds; the weight is read as 16 bytes of int8
    assert (cost.flops, cost.nodes[2].weight_bytes, cost.nodes[2].bytes_read) == (96, 16, 16 + 48)
    assert (cost.parameters, cost.parameter_bytes) == (17, 20)


def test_shape_arithmetic_in_float_decides_a_size():
    # half of the height, as exporters write it: Shape -> Slice -> Cast -> Mul -> Floor -> Cast -> Concat -> Reshape
    nodes = [
        h.make_node("Shape", ["x"], ["s"]),
        h.make_node("Slice", ["s", "zero", "one"], ["rows"]),
        h.make_node("Cast", ["rows"], ["f"], to=T.FLOAT),
        h.make_node("Mul", ["f", "half"], ["g"]),
        h.make_node("Floor", ["g"], ["k"]),
        h.make_node("Cast", ["k"], ["n"], to=T.INT64),
        h.make_node("Concat", ["n", "eight"], ["target"], axis=0),
        h.make_node("Reshape", ["x", "target"], ["r"]),
        h.make_node("Neg", ["r"], ["y"]),
        h.make_node("Size", ["y"], ["size"]),
        h.make_node("ConstantOfShape", ["size1"], ["filled"]),
        h.make_node("Unsqueeze", ["size", "zero"], ["size1"]),
    ]
    nodes[-1], nodes[-2] = nodes[-2], nodes[-1]
    numbers = {"zero": [0], "one": [1], "eight": [8]}
    constants = [weight(k, np.array(v)) for k, v in numbers.items()] + [weight("half", np.float32(0.5))]
    cost = count(model(nodes, [info("x", "h", 4)], ["y", "filled"], constants), {"x": (10, 4)})
    assert cost.nodes[8].bytes_written == 5 * 8 * 4
    assert cost.nodes[-1].bytes_written == 40 * 4
    assert cost.unknown == {}


def test_what_depends_on_values_is_unknown_with_its_reason_downstream():
    nodes = [
        h.make_node("NonZero", ["x"], ["where"], name="find"),
        h.make_node("Cast", ["where"], ["f"], to=T.FLOAT),
        h.make_node("Softmax", ["f"], ["y"]),
    ]
    cost = count(model(nodes, [info("x", 3, 4)], ["y"]), {})
    ((reason, n_nodes),) = cost.unknown.items()
    assert n_nodes == 3
    facts(reason, "shape", "NonZero 'find'", "values")
    assert [n.known for n in cost.nodes] == [False] * 3


def test_an_input_without_a_size_is_named():
    cost = count(model([h.make_node("Neg", ["x"], ["y"])], [info("x", "n")], ["y"]), {})
    ((reason, n_nodes),) = cost.unknown.items()
    assert n_nodes == 1
    facts(reason, "shape", "input 'x'", "not given")


def test_operators_of_others_are_named_and_what_they_declare_is_believed():
    nodes = [h.make_node("Mine", ["x"], ["m"], domain="own", name="mine"), h.make_node("Neg", ["m"], ["y"])]
    proto = model(nodes, [info("x", 3)], ["y"])
    mine, neg = (n.note for n in count(proto, {}).nodes)
    facts(mine, "no formula", "own.Mine")
    facts(neg, "shape", "Mine 'mine'", "unknown")
    proto.graph.value_info.append(info("m", 5))
    assert [(n.known, n.flops) for n in count(proto, {}).nodes] == [(False, 0), (True, 5)]


@pytest.mark.parametrize(
    ("shapes", "said"), [({"z": (1,)}, "The model has no input 'z'"), ({"x": (1, 2)}, "2 dimensions")]
)
def test_wrong_shapes_are_refused(shapes, said):
    with pytest.raises(InputError, match=said):
        count(model([h.make_node("Neg", ["x"], ["y"])], [info("x", 3)], ["y"]), shapes)


HOSTILE = [
    # attributes of another type, operands of another rank or missing: one unknown node each, never a crash
    h.make_node("Gemm", ["x", "x"], ["y"], transA="yes"),
    h.make_node("Gemm", ["v", "v"], ["y"]),
    h.make_node("Conv", ["v", "v"], ["y"]),
    h.make_node("Conv", ["x"], ["y"]),
    h.make_node("MatMul", ["s", "s"], ["y"]),
    h.make_node("Attention", ["x", "x"], ["y"], domain="com.microsoft"),
    h.make_node("MultiHeadAttention", ["v"], ["y"], domain="com.microsoft", num_heads=1),
    h.make_node("LSTM", ["x", "x", "x"], ["y"]),
    h.make_node("Einsum", ["x", "x"], ["y"], equation="ij"),
    h.make_node("Einsum", ["x"], ["y"], equation="abc->a"),
    h.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", nodes_treeids=[0]),
    h.make_node("MatMulNBits", ["x", "x"], ["y"], domain="com.microsoft"),
    h.make_node("MaxPool", ["x"], ["y"]),
    h.make_node("If", ["x"], ["y"], then_branch=BRANCHES["else_branch"]),
]


@pytest.mark.parametrize("node", HOSTILE, ids=[f"{i}-{n.op_type}" for i, n in enumerate(HOSTILE)])
def test_nonsense_is_unknown(node):
    cost = count(model([node], [info("x", 4, 4), info("v", 3), info("s")], ["y"]), {})
    assert not cost.nodes[0].known
    assert cost.nodes[0].note


def costs_of(name, **options):
    opened = open_model(zoo.model_path(name))
    (case,) = workload.propose(opened.ir, **options).cases
    return costs(opened.ir, {c.name: c.shape for c in case.inputs}), opened


@pytest.mark.parametrize(
    ("name", "gigamacs"),
    # published counts at 224x224 (torchvision, the papers): ResNet-50 4.09, VGG-19 19.63, SqueezeNet 1.1 0.349,
    # DenseNet-121 2.83, AlexNet with groups 0.65, Inception v1 1.43
    [
        ("light-resnet50", 4.09), ("light-vgg19", 19.63), ("light-squeezenet", 0.349),
        ("light-densenet121", 2.83), ("light-alexnet", 0.655), ("light-inception-v1", 1.43),
    ],
)  # fmt: skip
def test_known_topologies(name, gigamacs):
    cost, _ = costs_of(name)
    assert cost.macs / 1e9 == pytest.approx(gigamacs, rel=0.005)
    # bias, pooling and activations add little to two operations a multiply-add
    assert 1 < cost.flops / (2 * cost.macs) < 1.06
    assert cost.unknown == {}


def test_transformer_at_128_tokens():
    cost, opened = costs_of("minilm-int8")
    # 6 layers of width 384, inner width 1536: 12 x 384^2 multiply-adds a token, and attention over 128 x 128 twice
    assert cost.macs == 6 * (128 * 12 * 384**2 + 2 * 128 * 128 * 384)
    assert (cost.parameters, cost.unknown) == (opened.facts.n_parameters, {})
    # weights are stored in a byte each
    assert cost.parameter_bytes < 1.05 * cost.parameters


@pytest.mark.parametrize("name", ["ppocrv2-cls", "silero-vad-half", "minilm-int8"])
def test_sizes_are_those_that_onnxruntime_sees(name, tmp_path):
    cost, opened = costs_of(name)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "trace")
    session = ort.InferenceSession(zoo.model_path(name), options, providers=["CPUExecutionProvider"])
    ((_, feeds),) = workload.feeds(opened.ir, workload.propose(opened.ir))
    session.run(None, feeds)
    events = json.loads(Path(session.end_profiling()).read_text())
    written = {e["name"].removesuffix("_kernel_time"): e["args"] for e in events if "kernel" in e["name"]}
    # a view writes nothing by our count, and ONNX Runtime reports its whole output
    compared = [n for n in cost.nodes if n.name in written and n.bytes_written]
    assert len(compared) > 60
    for node in compared:
        assert node.bytes_written == int(written[node.name]["output_size"]), node


@pytest.mark.parametrize("level", ["ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"])
def test_what_onnxruntime_fused_costs_the_same(level, tmp_path):
    plain, opened = costs_of("light-squeezenet")
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    ort.InferenceSession(opened.path, options, providers=["CPUExecutionProvider"])
    fused = costs(open_model(tmp_path / "optimized.onnx").ir, {"data_0": (1, 3, 224, 224)})
    assert fused.unknown == {}
    assert len(fused.nodes) < len(plain.nodes)
    # 1000 classes are 1008 in blocks of 16
    assert fused.macs == pytest.approx(plain.macs, rel=0.02)


def test_weights_of_gigabytes_are_not_read(tmp_path):
    proto = model([h.make_node("MatMul", ["x", "w"], ["y"])], [info("x", 2, 32768)], ["y"])
    tensor = proto.graph.initializer.add(name="w", data_type=T.FLOAT, dims=[32768, 24576])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.data")
    with (tmp_path / "w.data").open("wb") as file:
        file.truncate(4 * 32768 * 24576)  # 3 GiB that take no place on the disk
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    opened = open_model(tmp_path / "m.onnx")
    before = psutil.Process().memory_info().rss
    cost = costs(opened.ir, {})
    assert psutil.Process().memory_info().rss - before < 50e6
    assert (cost.macs, cost.parameter_bytes) == (2 * 32768 * 24576, 3 << 30)


def test_the_cost_follows_the_shapes():
    short, _ = costs_of("minilm-int8", dims={"sequence_length": ((64, 1.0),)})
    assert short.macs == 6 * (64 * 12 * 384**2 + 2 * 64 * 64 * 384)


KNOWN_ABOVE = {"light-resnet50", "light-vgg19", "light-squeezenet", "light-densenet121", "light-alexnet"}


@pytest.mark.parametrize("name", [n for n in zoo.MODELS if n not in KNOWN_ABOVE | {"piper-joe"}])
def test_real_models_are_counted_completely(name):
    cost, opened = costs_of(name)
    assert cost.unknown == {}
    assert cost.parameters == opened.facts.n_parameters
    assert cost.flops == sum(node.flops * node.times for node in cost.nodes)
    assert cost.flops > 0


def test_a_length_that_the_values_decide_leaves_the_rest_unknown():
    cost, _ = costs_of("piper-joe")
    assert set(cost.unknown) == {n.note for n in cost.nodes if not n.known}
    assert all("depends on values" in reason for reason in cost.unknown)


@pytest.mark.parametrize("operands", [["x", "w"], ["w", "x"]])
def test_a_weight_that_was_laid_out_anew_is_not_among_what_a_profile_tells(operands):
    # A profile of x of 4x4, where the graph was told of 2 rows and does not fit.
    proto = model([h.make_node("MatMul", operands, ["y"], name="n")], [info("x", "n", 4)], ["y"], [W])
    opened = ir.from_proto(proto)
    (node,) = opened.graph
    ran = {node: (Executions(inputs=((4, 4),), outputs=((4, 4),), times=3),)}
    (cost,) = costs(opened, {"x": (2, 4)}, ran=ran).nodes
    assert (cost.macs, cost.bytes_read, cost.bytes_written) == (64, 128, 64)


def test_executions_with_several_shapes_make_a_mean_one():
    proto = model([h.make_node("MatMul", ["x", "w"], ["y"], name="n")], [info("x", "n", 4)], ["y"], [W])
    opened = ir.from_proto(proto)
    (node,) = opened.graph
    each = (Executions(inputs=((n, 4), (4, 4)), outputs=((n, 4),), times=n) for n in (1, 3))
    (cost,) = costs(opened, {"x": (1, 4)}, ran={node: tuple(each)}).nodes
    # once 1 row, three times 3
    assert cost.macs == 16 * (1 + 9) // 4


def test_an_operand_that_is_left_out_where_one_must_be_is_no_error_of_ours():
    nodes = [h.make_node("Constant", [], ["a"], value_ints=[2]), h.make_node("Add", ["a", ""], ["y"])]
    assert count(model(nodes, [info("x", 2)], ["y"]), {"x": (2,)}).nodes


@pytest.mark.parametrize(
    ("build", "written"), [(inlined_functions.good, True), (inlined_functions.bad, False)]
)
def test_functions_that_multiply_are_not_written_out_to_be_counted(build, written):
    """To name each copy takes as long as there are copies before it: 12,800 nodes took 48 seconds."""
    model = ir.from_proto(build())
    cost = costs(model, {"v0": (8,)})
    assert written_nodes(model) == (2 + 80 + 3200 if written else 8 + 320 + 12_800)
    assert len(cost.nodes) == (3200 if written else 8)
    assert [node.note.split()[-1] for node in cost.nodes if not node.known] == (
        [] if written else 8 * ["local.block"]
    )
