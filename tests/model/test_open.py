"""Opening .onnx files: weights stay in the file, whatever their encoding, and bad files give one clear error."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from ortune.errors import ModelError
from ortune.model.graphs import graphs, tensor_value, tensors, type_text
from ortune.model.open import open_model
from ortune.model.save import save_model
from ortune.model.tensors import FileTensor

LIGHT = sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("*.onnx"))
DATASETS = Path(onnxruntime.__file__).parent / "datasets"
MIB = 1 << 20


def value(name: str, shape: list[int | str], dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    weights: list[onnx.TensorProto] = (),  # type: ignore[assignment]
    **extra: object,
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, **extra)


def matmul_model(width: int = 64) -> onnx.ModelProto:
    weight = np.random.default_rng(0).standard_normal((width, width)).astype(np.float32)
    return model_of(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")],
        [value("x", [1, width])],
        [value("y", [1, width])],
        [numpy_helper.from_array(weight, "w")],
    )


def saved(model: onnx.ModelProto, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def external(path: Path, *, size: int = 16384, **entries: str) -> Path:
    """A model whose weight lies in external data, described by ``entries``; ``w.bin`` has ``size`` bytes."""
    model = matmul_model()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in entries.items():
        tensor.external_data.add(key=key, value=text)
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "w.bin").write_bytes(bytes(range(256)) * (size // 256) + bytes(size % 256))
    return saved(model, path)


def histogram(graph: onnx.GraphProto) -> Counter[str]:
    count: Counter[str] = Counter()
    for node in graph.node:
        count[f"{node.domain}.{node.op_type}" if node.domain else node.op_type] += 1
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                count += histogram(inner)
    return count


@pytest.mark.parametrize("path", [*LIGHT, *sorted(DATASETS.glob("*.onnx"))], ids=lambda p: p.stem)
def test_what_is_opened_is_what_onnx_loads(path: Path) -> None:
    opened, loaded = open_model(path), onnx.load(path)
    graph = opened.ir.graph
    assert opened.op_counts == histogram(loaded.graph)
    assert [v.name for v in graph.inputs] == [v.name for v in loaded.graph.input]
    assert [v.name for v in graph.outputs] == [v.name for v in loaded.graph.output]
    assert len(loaded.graph.initializer) == len(graph.initializers)
    for tensor in loaded.graph.initializer:
        mine = graph.initializers[tensor.name].const_value
        assert mine is not None
        np.testing.assert_array_equal(mine.numpy(), numpy_helper.to_array(tensor))
    info = opened.info
    assert info.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert info.opsets == {o.domain: o.version for o in loaded.opset_import}
    assert (info.format, info.size_bytes, info.external_bytes) == ("onnx", path.stat().st_size, 0)


def test_types_that_onnx_ir_does_not_know_are_kept_in_words() -> None:
    graph = open_model(DATASETS / "logreg_iris.onnx").ir.graph
    assert [type_text(v) for v in graph.inputs] == ["float"]
    assert [type_text(v) for v in graph.outputs] == ["int64", "seq(map(int64,float))"]


def awkward_model() -> onnx.ModelProto:
    """Weights in every place and encoding: initializers, Constants, subgraphs, functions, sparse, typed fields."""
    rng = np.random.default_rng(1)
    big = rng.standard_normal(600).astype(np.float32)
    typed = helper.make_tensor("typed", TensorProto.FLOAT, [600], big.tolist())
    double = helper.make_tensor("double", TensorProto.DOUBLE, [300], rng.standard_normal(300).tolist())
    half = numpy_helper.from_array(big.astype(np.float16), "half")
    ints = helper.make_tensor("ints", TensorProto.INT64, [600], list(range(600)))
    int4 = helper.make_tensor("int4", TensorProto.INT4, [3000], (np.arange(3000) % 15 - 7).tolist())
    nibbles = onnx.TensorProto(
        name="nibbles", data_type=TensorProto.UINT4, dims=[4000], raw_data=bytes(range(200)) * 10
    )
    brain = onnx.TensorProto(
        name="brain", data_type=TensorProto.BFLOAT16, dims=[600], raw_data=b"\x80\x3f" * 600
    )
    branch = [
        helper.make_graph(
            [helper.make_node("Add", ["x", f"b{n}"], [f"o{n}"])],
            f"branch{n}", [], [value(f"o{n}", [600])], [numpy_helper.from_array(big + n, f"b{n}")],
        )
        for n in range(2)
    ]  # fmt: skip
    model = model_of(
        [
            helper.make_node("If", ["c"], ["i"], then_branch=branch[0], else_branch=branch[1]),
            helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(big * 2, "k")),
            helper.make_node("Twice", ["i"], ["t"], domain="local"),
            helper.make_node("Add", ["t", "k"], ["s"]),
            helper.make_node("Add", ["s", "typed"], ["u"]),
            helper.make_node("Add", ["u", "scattered"], ["y"]),
        ],
        [value("x", [600]), value("c", [], TensorProto.BOOL)],
        [value("y", [600])],
        [typed, double, half, ints, int4, nibbles, brain],
    )
    sparse = model.graph.sparse_initializer.add(dims=[600])
    sparse.values.CopyFrom(numpy_helper.from_array(np.arange(300, dtype=np.float32), "scattered"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.arange(300, dtype=np.int64) * 2, "where"))
    twice = helper.make_function(
        "local", "Twice", ["a"], ["b"],
        [
            helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(big * 0 + 2, "two")),
            helper.make_node("Mul", ["a", "two"], ["b"]),
        ],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    model.functions.append(twice)
    model.opset_import.append(helper.make_opsetid("local", 1))
    return model


def test_weights_in_every_encoding_stay_in_the_file_and_read_back_equal(tmp_path: Path) -> None:
    proto = awkward_model()
    opened = open_model(saved(proto, tmp_path / "m.onnx"))
    expected = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    expected["scattered"] = np.zeros(600, np.float32)
    expected["scattered"][::2] = np.arange(300)
    for graph in graphs(opened.ir):
        for node in graph:
            for attribute in node.attributes.values():
                if attribute.name in ("then_branch", "else_branch"):
                    expected |= {
                        t.name: numpy_helper.to_array(t)
                        for n in proto.graph.node
                        for a in n.attribute
                        for t in a.g.initializer
                    }
    found = {t.name: t for t in tensors(opened.ir) if t.name in expected}
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name].numpy(), array, err_msg=name)
    in_file = {t.name for t in tensors(opened.ir) if isinstance(t, FileTensor)}
    assert {"typed", "double", "half", "nibbles", "brain", "b0", "b1", "k", "two"} <= in_file
    assert "ints" not in in_file  # variable-length integers lie in no form that could be mapped
    assert opened.facts.n_parameters == sum(a.size for a in expected.values()) + 600 + 600


@pytest.mark.parametrize("limit", [1 << 30, 0], ids=["inline", "external"])
def test_a_model_written_out_again_is_whole_and_computes_the_same(tmp_path: Path, limit: int) -> None:
    path = saved(awkward_model(), tmp_path / "m.onnx")
    copy = tmp_path / "elsewhere" / "copy.onnx"
    copy.parent.mkdir()
    save_model(open_model(path).ir, copy, inline_limit_bytes=limit)
    feeds = {"x": np.ones(600, np.float32), "c": np.array(False)}
    a, b = (
        onnxruntime.InferenceSession(p, providers=["CPUExecutionProvider"]).run(None, feeds)
        for p in (path, copy)
    )
    np.testing.assert_array_equal(a[0], b[0])
    assert (copy.parent / "copy.onnx.data").exists() == (limit == 0)


def test_map_types_are_written_again(tmp_path: Path) -> None:
    save_model(open_model(DATASETS / "logreg_iris.onnx").ir, tmp_path / "copy.onnx")
    a, b = (onnx.load(p).graph.output for p in (DATASETS / "logreg_iris.onnx", tmp_path / "copy.onnx"))
    assert list(a) == list(b)


def test_nodes_out_of_order_are_sorted(tmp_path: Path) -> None:
    model = matmul_model()
    model.graph.node.insert(0, helper.make_node("Relu", ["y"], ["z"]))
    model.graph.output[0].name = "z"
    assert [n.op_type for n in open_model(saved(model, tmp_path / "m.onnx")).ir.graph] == ["MatMul", "Relu"]


def test_a_negative_dimension_is_unknown(tmp_path: Path) -> None:
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], [value("x", [-1, 3])], [value("y", ["n", 3])])
    shape = open_model(saved(model, tmp_path / "m.onnx")).ir.graph.inputs[0].shape
    assert shape is not None
    assert not isinstance(shape[0], int)
    assert shape[1] == 3


# --- files larger than memory should be ------------------------------------------------------------------

MEASURE = """
import resource, sys
from ortune.model.open import open_model
open_model(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
opened = open_model(sys.argv[2])
unit = 1 if sys.platform == "darwin" else 1024
grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit
last = opened.ir.graph.initializers["w2"].const_value
print(grown, opened.facts.n_parameters, opened.facts.external_bytes, last.numpy()[-1])
"""


def measure(small: Path, large: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, small, large], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.split()


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def sparse_inline(path: Path, count: int, each: int) -> None:
    """A model of ``count`` inline weights of ``each`` bytes, as a file with holes; the last float is 1.5."""
    model = model_of([helper.make_node("Relu", ["w0"], ["y"])], [], [value("y", ["n"])])
    rest = model.graph.SerializeToString()
    model.ClearField("graph")
    heads = []
    for n in range(count):
        tensor = onnx.TensorProto(
            name=f"w{n}", data_type=TensorProto.FLOAT, dims=[each // 4]
        ).SerializeToString()
        tensor += b"\x4a" + varint(each)
        heads.append(b"\x2a" + varint(len(tensor) + each) + tensor)
    total = sum(map(len, heads)) + count * each + len(rest)
    with path.open("wb") as file:
        file.write(model.SerializeToString() + b"\x3a" + varint(total))
        for head in heads:
            file.write(head)
            file.seek(each - 4, os.SEEK_CUR)
            file.write(np.float32(1.5).tobytes())
        file.write(rest)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell a process's peak memory this way")
def test_an_inline_model_of_1900_mb_is_opened_in_little_memory(tmp_path: Path) -> None:
    small, large = saved(matmul_model(), tmp_path / "small.onnx"), tmp_path / "large.onnx"
    each = 633 * MIB
    sparse_inline(large, 3, each)
    assert large.stat().st_size > 1899 * MIB
    grown, parameters, outside, last = measure(small, large)
    assert int(grown) < 50 * MIB
    assert int(parameters) == 3 * each // 4
    assert (outside, float(last)) == ("0", 1.5)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell a process's peak memory this way")
def test_an_external_model_of_4_gb_is_opened_in_little_memory(tmp_path: Path) -> None:
    small, large = saved(matmul_model(), tmp_path / "small.onnx"), tmp_path / "large.onnx"
    each = 1 << 30
    model = model_of([helper.make_node("Relu", ["w0"], ["y"])], [], [value("y", ["n"])])
    for n in range(4):
        tensor = model.graph.initializer.add(name=f"w{n}", data_type=TensorProto.FLOAT, dims=[each // 4])
        tensor.data_location = TensorProto.EXTERNAL
        for key, text in (("location", "w.bin"), ("offset", str(n * each)), ("length", str(each))):
            tensor.external_data.add(key=key, value=text)
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(4 * each)
        file.seek(3 * each - 4)
        file.write(np.float32(1.5).tobytes())
    grown, parameters, outside, last = measure(small, saved(model, large))
    assert int(grown) < 50 * MIB
    assert (int(parameters), int(outside), float(last)) == (each, 4 * each, 1.5)


def test_a_file_above_protobuf_s_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    sparse_inline(path, 4, 513 * MIB)
    with pytest.raises(ModelError, match="at most 2 GiB") as caught:
        open_model(path)
    assert "external data" in caught.value.do


# --- external data ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entries",
    [
        {"location": "w.bin"},
        {"location": "w.bin", "offset": "0", "length": "16384"},
        {"location": "./w.bin", "length": "16384"},
        {"location": "../here/w.bin"},
    ],
    ids=str,
)
def test_external_data_that_onnx_runtime_accepts(tmp_path: Path, entries: dict[str, str]) -> None:
    path = external(tmp_path / "here" / "m.onnx", **entries)
    onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    opened = open_model(path)
    data = (path.parent / "w.bin").read_bytes()
    tensor = opened.ir.graph.initializers["w"].const_value
    assert tensor is not None
    assert tensor.tobytes() == data
    assert opened.info.external_bytes == 16384
    assert opened.sha256 == hashlib.sha256(path.read_bytes() + data).hexdigest()


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({"location": "gone.bin"}, "missing next to the model"),
        ({}, "without a file name"),
        ({"location": "/etc/hostname"}, "absolute path"),
        ({"location": "C:\\weights\\w.bin"}, "absolute path"),
        ({"location": "../../outside.bin"}, "outside the model's folder"),
        ({"location": "w.bin", "offset": "4"}, "has only 16384 bytes"),
        ({"location": "w.bin", "offset": "-4"}, "not a number of bytes"),
        ({"location": "w.bin", "length": "16380"}, "need 16384"),
        ({"location": "w.bin", "offset": "1" * 30}, "has only 16384 bytes"),
    ],
    ids=str,
)
def test_external_data_that_is_not_usable(tmp_path: Path, entries: dict[str, str], says: str) -> None:
    with pytest.raises(ModelError, match=says) as caught:
        open_model(external(tmp_path / "m.onnx", **entries))
    assert "m.onnx" in caught.value.where
    assert caught.value.do


def test_links_as_model_caches_make_them(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "rev"
    source = external(blobs / "m.onnx", location="w.bin")
    snapshot.mkdir(parents=True)
    (snapshot / "model.onnx").symlink_to(source)
    (snapshot / "w.bin").symlink_to(blobs / "w.bin")
    tensor = open_model(snapshot / "model.onnx").ir.graph.initializers["w"].const_value
    assert tensor is not None
    assert tensor.tobytes() == (blobs / "w.bin").read_bytes()
    # A data file that leads elsewhere than its model is what ONNX Runtime refuses too.
    other = tmp_path / "other"
    other.mkdir()
    (other / "m.onnx").write_bytes(source.read_bytes())
    (other / "w.bin").symlink_to(blobs / "w.bin")
    with pytest.raises(ModelError, match="outside"):
        open_model(other / "m.onnx")


def test_a_hard_linked_model_can_be_read(tmp_path: Path) -> None:
    path = saved(matmul_model(), tmp_path / "m.onnx")
    (tmp_path / "again.onnx").hardlink_to(path)
    tensor = open_model(path).ir.graph.initializers["w"].const_value
    assert tensor is not None
    assert tensor.tobytes() == matmul_model().graph.initializer[0].raw_data


def test_the_identity_follows_the_external_bytes(tmp_path: Path) -> None:
    path = external(tmp_path / "m.onnx", location="w.bin")
    before = open_model(path).sha256
    data = bytearray((tmp_path / "w.bin").read_bytes())
    data[5] ^= 1
    (tmp_path / "w.bin").write_bytes(data)
    assert open_model(path).sha256 != before


# --- files that are no models -----------------------------------------------------------------------------

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
        (b"\x1c\0\0\0TFL3" + bytes(50), "TensorFlow Lite", "tf2onnx"),
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
    graph = helper.make_graph([node], "g", sides[:1], sides[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    assert open_model(path).op_counts == {"acme.Transpose": 1}
