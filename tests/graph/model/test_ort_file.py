"""ORT-format files, made by ONNX Runtime itself, read as the .onnx of the same optimisation is."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from ortune.errors import ModelError
from ortune.graph.model.flatbuffer import Flatbuffer, FlatbufferTable
from ortune.graph.model.graphs import graphs, subgraphs, type_text
from ortune.graph.model.open import OpenModel, open_model
from ortune.graph.model.tensors import FileTensor

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
DATASETS = Path(ort.__file__).parent / "datasets"


def convert(source: Path, folder: Path, level: str) -> tuple[Path, Path]:
    """The model as ONNX Runtime writes it at an optimisation level, in both formats."""
    paths = []
    for kind in ("ort", "onnx"):
        options = ort.SessionOptions()
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{level}")
        options.optimized_model_filepath = str(folder / f"m.{kind}")
        options.log_severity_level = 3
        options.add_session_config_entry("session.save_model_format", kind.upper())
        ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        paths.append(folder / f"m.{kind}")
    return paths[0], paths[1]


def branching_model(path: Path) -> Path:
    """Subgraphs, every simple attribute type, a sequence, strings, small and large weights, metadata."""
    weight = np.arange(400, dtype=np.float32)

    def info(name: str, kind: int, shape: list[int | str]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)

    then = helper.make_graph(
        [helper.make_node("Add", ["x", "w1"], ["t"])], "then", [], [info("t", TensorProto.FLOAT, ["n", 400])],
        [numpy_helper.from_array(weight, "w1")],
    )  # fmt: skip
    otherwise = helper.make_graph(
        [helper.make_node("Selu", ["x"], ["e"], alpha=1.5, gamma=0.5)],
        "else", [], [info("e", TensorProto.FLOAT, ["n", 400])],
    )  # fmt: skip
    graph = helper.make_graph(
        [
            helper.make_node("If", ["c"], ["i"], then_branch=then, else_branch=otherwise, name="choose"),
            helper.make_node("SplitToSequence", ["i"], ["parts"], axis=1, keepdims=1),
            helper.make_node("Transpose", ["i"], ["y"], perm=[1, 0]),
            helper.make_node(
                "LabelEncoder",
                ["s"],
                ["l"],
                domain="ai.onnx.ml",
                keys_strings=["a", "ü"],
                values_floats=[1.0, 2.0],
            ),
        ],
        "g",
        [
            info("x", TensorProto.FLOAT, ["n", 400]),
            info("c", TensorProto.BOOL, []),
            info("s", TensorProto.STRING, [2]),
        ],
        [
            info("y", TensorProto.FLOAT, [400, "n"]),
            helper.make_tensor_sequence_value_info("parts", TensorProto.FLOAT, None),
            info("l", TensorProto.FLOAT, [2]),
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="tester")
    helper.set_model_props(model, {"author": "someone"})
    onnx.save(model, path)
    return path


def weights(model: OpenModel) -> dict[str, ir.TensorProtocol]:
    found = {}
    for graph in graphs(model.ir):
        assert isinstance(graph, ir.Graph)
        for name, value in graph.initializers.items():
            assert value.const_value is not None
            found[name] = value.const_value
    return found


def ends(model: OpenModel) -> list[tuple[str | None, str, str]]:
    graph = model.ir.graph
    return [(v.name, type_text(v), str(v.shape)) for v in (*graph.inputs, *graph.outputs)]


def attributes(node: ir.Node) -> dict[str, object]:
    return {
        a.name: a.as_tensor().tobytes() if a.type == ir.AttributeType.TENSOR else a.value
        for a in node.attributes.values()
        if a.type != ir.AttributeType.GRAPH
    }


@pytest.mark.parametrize(
    ("source", "level"),
    [
        (LIGHT / "light_squeezenet.onnx", "ENABLE_EXTENDED"),
        (LIGHT / "light_squeezenet.onnx", "DISABLE_ALL"),
        (LIGHT / "light_shufflenet.onnx", "ENABLE_BASIC"),
        (LIGHT / "light_inception_v1.onnx", "ENABLE_ALL"),
        (DATASETS / "logreg_iris.onnx", "ENABLE_EXTENDED"),
        (DATASETS / "mul_1.onnx", "DISABLE_ALL"),
        (None, "ENABLE_EXTENDED"),
    ],
    ids=lambda v: getattr(v, "stem", v),
)
def test_ort_format_reads_as_the_onnx_of_the_same_optimisation(
    tmp_path: Path, source: Path | None, level: str
) -> None:
    as_ort, as_onnx = convert(source or branching_model(tmp_path / "source.onnx"), tmp_path, level)
    a, b = open_model(as_ort), open_model(as_onnx)
    assert a.info.format == "ort"
    assert a.op_counts == b.op_counts
    assert ends(a) == ends(b)
    assert a.facts.opsets == b.facts.opsets
    assert (a.facts.n_nodes, a.facts.n_parameters) == (b.facts.n_nodes, b.facts.n_parameters)
    mine, theirs = weights(a), weights(b)
    assert mine.keys() == theirs.keys()
    for name, tensor in mine.items():
        assert (tensor.dtype, tensor.shape) == (theirs[name].dtype, theirs[name].shape)
        assert tensor.tobytes() == theirs[name].tobytes()
        assert isinstance(tensor, FileTensor) == (tensor.nbytes >= 1024)
    by_output = {node.outputs[0].name: node for node in b.ir.graph}
    for node in a.ir.graph:
        twin = by_output[node.outputs[0].name]
        assert [v and v.name for v in node.inputs] == [v and v.name for v in twin.inputs]
        # ORT format also spells out the attributes that are at their defaults.
        assert attributes(twin).items() <= attributes(node).items()


def test_subgraphs_types_and_metadata_are_there(tmp_path: Path) -> None:
    path, _ = convert(branching_model(tmp_path / "source.onnx"), tmp_path, "DISABLE_ALL")
    opened = open_model(path)
    choose = next(node for node in opened.ir.graph if node.op_type == "If")
    assert [[n.op_type for n in graph] for graph in subgraphs(choose)] in (
        [["Add"], ["Selu"]],
        [["Selu"], ["Add"]],
    )
    assert type_text(opened.ir.graph.outputs[1]) == "seq(float)"
    assert opened.ir.metadata_props["author"] == "someone"
    assert opened.facts.producer == "tester"
    encoder = next(node for node in opened.ir.graph if node.op_type == "LabelEncoder")
    assert list(encoder.attributes["keys_strings"].as_strings()) == ["a", "ü"]


def test_ort_format_is_known_by_its_content(tmp_path: Path) -> None:
    as_ort, as_onnx = convert(DATASETS / "mul_1.onnx", tmp_path, "DISABLE_ALL")
    renamed = tmp_path / "really_ort.onnx"
    renamed.write_bytes(as_ort.read_bytes())
    assert open_model(renamed).facts.format == "ort"
    wrong = tmp_path / "really_onnx.ort"
    wrong.write_bytes(as_onnx.read_bytes())
    with pytest.raises(ModelError, match="not in ORT format") as caught:
        open_model(wrong)
    assert ".onnx" in caught.value.do


def test_shared_tables_do_not_multiply_the_work() -> None:
    # Fifty tables, each naming the next one twice: 2**50 ways through a file of 1.4 kB.
    level = struct.pack("<HHHxxiIIII", 6, 8, 4, 8, 4, 2, 16, 12)
    data = struct.pack("<I", 12) + level * 50 + struct.pack("<HHxxxxi", 4, 4, 8)
    with pytest.raises(ModelError, match="shared"):
        walk(Flatbuffer(data, "shared.ort").root())


def walk(table: FlatbufferTable) -> int:
    return 1 + sum(map(walk, table.tables(0)))


@pytest.mark.parametrize("length", [8, 9, 40, 200, -20, -100])
def test_a_truncated_file_is_refused(tmp_path: Path, length: int) -> None:
    path, _ = convert(DATASETS / "mul_1.onnx", tmp_path, "DISABLE_ALL")
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ModelError, match="truncated or damaged") as caught:
        open_model(path)
    assert str(path) in caught.value.where
    assert "Convert" in caught.value.do


def test_damage_anywhere_gives_a_model_or_one_clear_error(tmp_path: Path) -> None:
    path, _ = convert(branching_model(tmp_path / "source.onnx"), tmp_path, "DISABLE_ALL")
    good, rng = path.read_bytes(), random.Random(3)
    refused = 0
    for round_ in range(400):
        data = bytearray(good[: rng.randrange(8, len(good))] if round_ % 4 == 0 else good)
        for _ in range(rng.choice((1, 4, 16))):
            data[rng.randrange(8, len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        path.write_bytes(data)
        try:
            open_model(path)
        except ModelError as error:
            assert error.where.startswith(str(path))
            refused += 1
    assert refused > 100
