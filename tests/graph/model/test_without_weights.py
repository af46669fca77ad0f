"""A model without weights, names or metadata: what is gone from the bytes, and what stays as it was."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_text import assemble
from ortune import rules
from ortune.graph.model.graphs import tensors
from ortune.graph.model.open import open_model
from ortune.graph.skeleton import skeleton
from ortune.rules import ABOUT_MODELS, Facts, Selection
from zoo import model_path

SECRET = "Zebrafish"
RNG = np.random.default_rng(7)


def _normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def told_everywhere(path: Path) -> Path:
    """A model that says its owner's name wherever ONNX has room for one."""

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        tensor = numpy_helper.from_array(_normal(*shape), f"{SECRET}_{name}")
        tensor.doc_string = SECRET
        return tensor

    def info(name: str, *shape: object) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(f"{SECRET}_{name}", TensorProto.FLOAT, shape, doc_string=SECRET)

    def node(op: str, inputs: list[str], output: str, **attributes: object) -> onnx.NodeProto:
        names = [f"{SECRET}_{name}" for name in inputs]
        made = helper.make_node(
            op, names, [f"{SECRET}_{output}"], name=f"/{SECRET}/{op}", doc_string=SECRET, **attributes
        )
        made.metadata_props.add(key=SECRET, value=SECRET)
        return made

    branches = [
        helper.make_graph(
            [node("MatMul", ["h", f"branch_{side}"], f"out_{side}")],
            f"{SECRET}_{side}", [], [info(f"out_{side}", f"{SECRET}_batch", 64)], [weight(f"branch_{side}", 64, 64)],
        )
        for side in ("then", "else")
    ]  # fmt: skip
    inner = helper.make_node("LeakyRelu", [f"{SECRET}_a"], [f"{SECRET}_b"])
    inner.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name=f"{SECRET}_slope")
    constant = helper.make_node(
        "Constant", [], [f"{SECRET}_c"], value=numpy_helper.from_array(_normal(1, 64), SECRET)
    )
    add = helper.make_node("Add", [f"{SECRET}_b", f"{SECRET}_c"], [f"{SECRET}_d"])
    function = helper.make_function(
        f"{SECRET}.layers", f"{SECRET}Act", [f"{SECRET}_a"], [f"{SECRET}_d"], [inner, constant, add],
        [helper.make_opsetid("", 17)], [f"{SECRET}_slope"], doc_string=SECRET,
    )  # fmt: skip
    call = helper.make_node(
        f"{SECRET}Act",
        [f"{SECRET}_g"],
        [f"{SECRET}_f"],
        domain=f"{SECRET}.layers",
        **{f"{SECRET}_slope": 0.1},
    )
    texts = helper.make_tensor(f"{SECRET}_texts", TensorProto.STRING, [2], [f"{SECRET} one".encode(), b"two"])
    labels = helper.make_node(
        "LabelEncoder", [f"{SECRET}_texts"], [f"{SECRET}_numbers"], domain="ai.onnx.ml",
        keys_strings=[f"{SECRET} one", "two"], values_int64s=[8675309, 90210],
    )  # fmt: skip
    graph = helper.make_graph(
        [
            node("MatMul", ["x", "w"], "h"),
            node("If", ["flag"], "g", then_branch=branches[0], else_branch=branches[1]),
            call,
            labels,
        ],
        SECRET,
        [
            info("x", f"{SECRET}_batch", 32),
            helper.make_tensor_value_info(f"{SECRET}_flag", TensorProto.BOOL, []),
        ],
        [
            info("f", f"{SECRET}_batch", 64),
            helper.make_tensor_value_info(f"{SECRET}_numbers", TensorProto.INT64, [2]),
        ],
        [weight("w", 32, 64), texts],
        doc_string=SECRET,
        value_info=[info("h", f"{SECRET}_batch", 64)],
    )
    domains = [("", 17), ("ai.onnx.ml", 3), (f"{SECRET}.layers", 1), (f"{SECRET}.unused", 1)]
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid(*each) for each in domains], ir_version=9, functions=[function],
        producer_name=SECRET, producer_version=SECRET, domain=SECRET, doc_string=SECRET,
    )  # fmt: skip
    helper.set_model_props(model, {SECRET: SECRET})
    # What no ONNX of today knows: field 999 of a model.
    path.write_bytes(model.SerializeToString() + b"\xba\x3e" + bytes([len(SECRET)]) + SECRET.encode())
    return path


def windows(data: bytes, width: int = 8) -> set[bytes]:
    return {data[i : i + width] for i in range(len(data) - width + 1)}


def weights(proto: onnx.ModelProto) -> list[np.ndarray]:
    held = [*proto.graph.initializer]
    held += [a.t for n in proto.graph.node for a in n.attribute if n.op_type == "Constant"]
    return [
        array
        for array in (numpy_helper.to_array(tensor) for tensor in held if tensor.data_type != 8)
        if array.size > 4 and array.dtype.kind == "f"
    ]


def test_nothing_of_the_owner_is_left(tmp_path: Path) -> None:
    path = told_everywhere(tmp_path / "m.onnx")
    assert path.read_bytes().count(SECRET.encode()) > 50
    data = skeleton(path).proto.SerializeToString()
    assert SECRET.lower().encode() not in data.lower()
    values = onnx.load(path).graph.node[-1].attribute
    assert helper.get_attribute_value(values[1]) == [8675309, 90210]
    made = onnx.load_from_string(data)
    assert helper.get_attribute_value(made.graph.node[-1].attribute[1]) == [0, 1]
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    first, second = (each.name for each in session.get_inputs())
    made_of = session.run(None, {first: np.ones((3, 32), np.float32), second: np.array(True)})
    assert made_of[0].shape == (3, 64)
    assert made_of[1].tolist() == [0, 1]  # text and its table were renamed alike


@pytest.mark.parametrize("name", ["ppocrv2-cls", "silero-vad-16k-op15", "minilm-int8"])
def test_no_name_and_no_weight_of_a_real_model_is_left(name: str) -> None:
    path = model_path(name)
    proto = onnx.load(path)
    data = skeleton(path).proto.SerializeToString()
    graph = proto.graph
    names = {n.name for n in graph.node} | {o for n in graph.node for o in (*n.input, *n.output)}
    names |= {tensor.name for tensor in graph.initializer} | {graph.name, proto.producer_name}
    known = {n.op_type for n in graph.node}
    left = [each for each in names if len(each) > 5 and each not in known and each.encode() in data]
    assert not left
    there = windows(data)
    for array in weights(proto):
        raw = np.ascontiguousarray(array).tobytes()
        seen = {raw[i : i + 8] for i in range(0, len(raw) - 7, array.itemsize)} & there
        # Runs of one number say nothing: zeros are everywhere.
        assert not [each for each in seen if len(set(each[: array.itemsize])) > 2]
    assert len(data) < path.stat().st_size / 10


def optimised(data: bytes | str, place: Path, level: str) -> Counter[str]:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(place)
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.log_severity_level = 4
    onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return open_model(place).op_counts


@pytest.mark.parametrize("name", ["ppocrv2-cls", "silero-vad", "minilm-int8", "oww-melspectrogram", "magika"])
@pytest.mark.parametrize("level", ["ORT_ENABLE_BASIC", "ORT_ENABLE_ALL"])
def test_onnx_runtime_makes_the_same_of_it(name: str, level: str, tmp_path: Path) -> None:
    path = model_path(name)
    data = skeleton(path).proto.SerializeToString()
    onnx.checker.check_model(data)
    want = optimised(str(path), tmp_path / "a.onnx", level)
    assert optimised(data, tmp_path / "b.onnx", level) == want


def _codes(path: Path, target: str) -> Counter[str]:
    asked = Selection(preview=True).rules(ABOUT_MODELS)
    facts = Facts(model=open_model(path), target=target)
    return Counter(finding.code for finding in rules.found_by(asked, facts))


def test_rules_find_in_it_what_they_find_in_the_original(tmp_path: Path) -> None:
    """Of every rule that shows a bad model: what is bad of it is not its names, and seldom its values."""
    lost = {}
    for code, rule in rules.all_rules().items():
        if rule.bad is None:
            continue
        path = tmp_path / f"{code}.onnx"
        path.write_bytes(rule.bad().SerializeToString())
        made = tmp_path / f"{code}-skeleton.onnx"
        made.write_bytes(skeleton(path).proto.SerializeToString())
        before, after = _codes(path, rule.target), _codes(made, rule.target)
        if before != after:
            lost[code] = before, after
    # Settings in metadata, caches and batches that are known by their names, and the spread of weights: all are gone.
    assert set(lost) <= {"GRA029", "QNT014", "QNT017", "SES003", "WEB017"}, lost


def test_equal_weights_stay_equal_and_others_do_not_become_so(tmp_path: Path) -> None:
    table = _normal(64, 64)
    held = {"a": table, "b": table.copy(), "c": _normal(64, 64), "z": np.zeros((64, 64), np.float32)}
    nodes = [helper.make_node("MatMul", ["x", name], [f"y_{name}"]) for name in held]
    sides = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 64]) for n in ("x", *(f"y_{k}" for k in held))
    ]
    onnx.save(
        assemble(nodes, sides[:1], sides[1:], held),
        tmp_path / "m.onnx",
    )
    (tmp_path / "s.onnx").write_bytes(skeleton(tmp_path / "m.onnx").proto.SerializeToString())
    new = open_model(tmp_path / "s.onnx").ir
    a, b, c, z = (each.const_value.numpy() for each in new.graph.initializers.values())
    assert np.array_equal(a, b) and not np.array_equal(a, c) and not z.any()
    assert a.shape == table.shape and np.abs(a).max() < 8


def test_weights_in_constants_of_old_operators_stay_constant_for_onnx_runtime(tmp_path: Path) -> None:
    node = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(_normal(64, 32), "w"))
    sides = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, k]) for n, k in (("x", 64), ("y", 32))]
    onnx.save(
        assemble(
            [node, helper.make_node("MatMul", ["x", "w"], ["y"])], sides[:1], sides[1:], opset=9, ir_version=4
        ),
        tmp_path / "m.onnx",
    )
    data = skeleton(tmp_path / "m.onnx").proto.SerializeToString()
    assert len(data) < 500
    onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    "kind", ["BFLOAT16", "FLOAT16", "FLOAT8E4M3FN", "INT4", "UINT4", "UINT8", "DOUBLE", "BOOL", "INT64"]
)
@pytest.mark.parametrize("old", [False, True])
def test_every_type_stays_what_it_is(kind: str, old: bool, tmp_path: Path) -> None:
    """As an initializer, and in a Constant of operators before and after sparse constants came."""
    dtype = ir.DataType[kind]
    values = np.abs(RNG.standard_normal((48, 32)) * 3).astype(dtype.numpy())
    tensor = ir.to_proto(ir.tensor(values, dtype=dtype, name="w"))
    nodes = [
        helper.make_node("Constant", [], ["c"], value=tensor),
        helper.make_node("Identity", ["c"], ["y"]),
        helper.make_node("Identity", ["w"], ["z"]),
    ]
    sides = [helper.make_tensor_value_info(name, dtype, None) for name in "yz"]
    model = assemble(nodes, (), sides, [tensor], opset=10 if old else 21, ir_version=10)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    made = tmp_path / "s.onnx"
    made.write_bytes(skeleton(path).proto.SerializeToString())
    found = [t for t in tensors(open_model(made).ir) if t.size == values.size]
    assert [(t.dtype, tuple(t.shape.numpy())) for t in found] == [(dtype, (48, 32))] * 2
    assert all(np.isfinite(t.numpy().astype(np.float64)).all() for t in found)
    assert not any(np.array_equal(t.numpy(), values) for t in found)
