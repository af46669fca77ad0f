"""Opening .onnx files: weights stay in the file, whatever their encoding, and bad files give one clear error."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from model_files import MIB, awkward_model, external, matmul_model, model_of, saved, value, varint
from onnx import TensorProto, helper, numpy_helper

from ortune.errors import ModelError
from ortune.graph.model.graphs import graphs, tensors, type_text
from ortune.graph.model.open import open_model
from ortune.graph.model.save import save_model
from ortune.graph.model.tensors import FileTensor

LIGHT = sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("*.onnx"))
DATASETS = Path(onnxruntime.__file__).parent / "datasets"


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
from ortune.graph.model.open import open_model
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
