"""What is no model, and what is damaged in one: one clear error each, or what can be read."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from model_files import awkward_model, matmul_model, model_of, saved, value, varint
from onnx import TensorProto, helper, numpy_helper

from onnx_text import assemble
from ortune.errors import ModelError
from ortune.graph.model.graphs import tensor_value
from ortune.graph.model.open import open_model

MATMUL = matmul_model().SerializeToString()


def without(field: str) -> bytes:
    model = matmul_model()
    model.ClearField(field)
    return model.SerializeToString()


def changed_weight(**fields: object) -> bytes:
    model = matmul_model()
    for name, content in fields.items():
        tensor = model.graph.initializer[0]
        if name == "dims":
            del tensor.dims[:]
            tensor.dims.extend(content)  # type: ignore[arg-type]
        else:
            setattr(tensor, name, content)
    return model.SerializeToString()


def nested(levels: int) -> bytes:
    """If inside If inside If, each padded so that no level is passed over as too small to matter."""
    inner = b""
    for _ in range(levels):
        graph = b"\x0a" + varint(len(inner)) + inner if inner else b"\x52" + varint(2000) + b"d" * 2000
        attribute = b"\x32" + varint(len(graph)) + graph
        node = b"\x2a" + varint(len(attribute)) + attribute
        inner = node
    graph = b"\x0a" + varint(len(inner)) + inner
    return b"\x08\x08\x3a" + varint(len(graph)) + graph


@pytest.mark.parametrize(
    ("content", "what", "do"),
    [
        (b"", "empty", "again"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "Git LFS", "git lfs pull"),
        (b"\n<!DOCTYPE html><html><body>Sign in</body></html>", "web page", "raw file"),
        (b"just some notes\nabout a model\n", "text", "again"),
        (b"PK\x03\x04" + bytes(100), "ZIP archive", "Unpack"),
        (b"\x1f\x8b\x08" + bytes(100), "gzip", "gunzip"),
        (b"\x1c\0\0\0TFL3" + bytes(50), "TensorFlow Lite", "ortune convert"),
        (bytes(64), "no model begins", "again"),
        (MATMUL[:-1], "truncated or damaged", "size"),
        (MATMUL[: len(MATMUL) // 2], "truncated or damaged", "size"),
        (MATMUL[:1], "truncated or damaged", "size"),
        (b"\x08\x08\x3b\x3c" + bytes(50), "protobuf group", "again"),
        (b"\x08\x08\x0f", "impossible wire type", "again"),
        (b"\x08" + b"\xff" * 40, "does not end", "again"),
        (b"\x08\x08\x00\x00", "impossible number 0", "again"),
        (b"\x08\x08", "has no graph", "again"),
        (without("graph"), "has no graph", "again"),
        (without("opset_import"), "no opset", "again"),
        (numpy_helper.from_array(np.arange(9.0), "t").SerializeToString(), "but a tensor", "--inputs"),
        (nested(60), "nest deeper than 100", "again"),
        (changed_weight(raw_data=bytes(16380)), "need 16384", "again"),
        (changed_weight(raw_data=bytes(12)), "need 16384", "again"),
        (changed_weight(dims=[64, -64]), "negative dimension", "again"),
        (changed_weight(data_type=77), "element type 77", "Upgrade"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)  # fmt: skip
def test_what_is_not_a_model_is_said_clearly(tmp_path: Path, content: bytes, what: str, do: str) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=what) as caught:
        open_model(path)
    assert str(path) in caught.value.where
    assert do in caught.value.do


def test_text_in_the_place_of_a_model_is_not_quoted(tmp_path: Path) -> None:
    """In a bundle, a hard link may stand for any file."""
    path = tmp_path / "m.onnx"
    path.write_text("password=hunter2 of somebody\n")
    with pytest.raises(ModelError) as refused:
        open_model(path)
    assert "hunter2" not in f"{refused.value.what} {refused.value.do}"


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    saved(matmul_model(), tmp_path / "inside.onnx")
    with pytest.raises(ModelError, match="folder") as caught:
        open_model(tmp_path)
    assert "inside.onnx" in caught.value.do
    with pytest.raises(ModelError, match="No such file"):
        open_model(tmp_path / "gone.onnx")


def test_a_graph_that_contradicts_itself(tmp_path: Path) -> None:
    model = matmul_model()
    model.graph.node.append(helper.make_node("Relu", ["x"], ["y"]))
    with pytest.raises(ModelError, match="'y' is redeclared"):
        open_model(saved(model, tmp_path / "twice.onnx"))
    model = matmul_model()
    model.graph.node[0].input[0] = "y"
    model.graph.node.append(helper.make_node("Relu", ["y"], ["z"]))
    with pytest.raises(ModelError, match="cycle"):
        open_model(saved(model, tmp_path / "cycle.onnx"))


def test_unknown_fields_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(MATMUL + b"\xfa\x3f" + varint(2000) + bytes(2000))
    assert open_model(path).op_counts == {"MatMul": 1}


def test_damage_anywhere_gives_a_model_or_one_clear_error(tmp_path: Path) -> None:
    good, rng, path = awkward_model().SerializeToString(), random.Random(7), tmp_path / "m.onnx"
    refused = 0
    for round_ in range(400):
        data = bytearray(good[: rng.randrange(1, len(good))] if round_ % 4 == 0 else good)
        for _ in range(rng.choice((1, 2, 8))):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        path.write_bytes(data)
        try:
            open_model(path)
        except ModelError as error:
            assert error.where.startswith(str(path))
            assert error.do
            refused += 1
    assert refused > 100


def test_a_reference_to_a_functions_parameter_holds_no_tensor() -> None:
    with pytest.raises(TypeError, match="'value' holds no tensor"):
        tensor_value(ir.RefAttr("value", "given", ir.AttributeType.TENSOR))


@pytest.mark.parametrize(
    ("operator", "inputs", "outputs", "what"),
    [
        ("MatMul", ["x"], ["y"], "'n' has 1 inputs, and needs 2"),
        ("Softmax", [], ["y"], "'n' has 0 inputs, and needs 1"),
        ("Relu", ["x"], [], "'n' has 0 outputs, and needs 1"),
    ],
)
def test_a_node_without_what_its_operator_needs_is_refused(
    tmp_path: Path, operator: str, inputs: list[str], outputs: list[str], what: str
) -> None:
    node = helper.make_node(operator, inputs, outputs, "n")
    path = saved(model_of([node], [value("x", [2, 2])], [value("y", [2, 2])]), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match=what):
        open_model(path)
    with pytest.raises(Exception, match=r"not in range|FAIL|INVALID"):
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    ("operator", "attributes", "what"),
    [
        ("Transpose", {"perm": 1}, "perm of Transpose 'n' is INT, and has to be INTS"),
        ("LeakyRelu", {"alpha": "much"}, "alpha of LeakyRelu 'n' is STRING, and has to be FLOAT"),
        # As the first version had it, and what older versions alone have.
        ("Cast", {"to": "float"}, "to of Cast 'n' is STRING, and has to be INT"),
        ("Unsqueeze", {"axes": 1.0}, "axes of Unsqueeze 'n' is FLOAT, and has to be INTS"),
    ],
)
def test_an_attribute_of_another_kind_than_its_operator_has_is_refused(
    tmp_path: Path, operator: str, attributes: dict[str, object], what: str
) -> None:
    names = ["x", "a"] if operator == "Unsqueeze" else ["x"]
    node = helper.make_node(operator, names, ["y"], "n", **attributes)
    sides = [value(name, [2, 2]) for name in (*names, "y")]
    path = saved(model_of([node], sides[:-1], sides[-1:]), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match=what):
        open_model(path)
    with pytest.raises(Exception, match=r"FAIL|INVALID"):
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def test_the_kinds_of_others_operators_are_theirs(tmp_path: Path) -> None:
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in ("x", "y")]
    node = helper.make_node("Transpose", ["x"], ["y"], "n", domain="acme", perm=1)
    path = tmp_path / "m.onnx"
    path.write_bytes(assemble([node], sides[:1], sides[1:], opsets={"acme": 1}).SerializeToString())
    assert open_model(path).op_counts == {"acme.Transpose": 1}
