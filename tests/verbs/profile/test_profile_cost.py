"""The work of the nodes of a profile: of the model itself, with the shapes that the profile tells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ortune
from graphs import drawn_by_name
from ortune.records import ProfiledNode, ProfileResult

pytestmark = pytest.mark.usefixtures("few_runs")

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def info(name: str, *shape: int | str, dtype: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def nodes_of(
    path: Path, graph: onnx.GraphProto, **options: object
) -> tuple[dict[str, ProfiledNode], ProfileResult]:
    """The profiled nodes by the node of the user's model that each stands for first."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    envelope = ortune.profile(path, set=["intra=1"], no_peak=True, store=path.parent / "store", **options)
    result = envelope.result
    assert isinstance(result, ProfileResult)
    return {(node.originals or (node.name,))[0]: node for node in result.nodes}, result


def test_padded_channels_are_no_work_of_the_model(tmp_path: Path) -> None:
    # A block has 8 channels with AVX2, 16 with AVX-512: neither divides 20.
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], name="narrow", pads=[1] * 4),
        helper.make_node("Conv", ["a", "w1"], ["b"], name="each", pads=[1] * 4, group=20),
        helper.make_node("Conv", ["b", "w2"], ["y"], name="single"),
    ]
    weights = [
        drawn_by_name("w0", 20, 3, 3, 3),
        drawn_by_name("w1", 20, 1, 3, 3),
        drawn_by_name("w2", 1, 20, 1, 1),
    ]
    graph = helper.make_graph(nodes, "padded", [info("x", 1, 3, 40, 40)], [info("y", 1, 1, 40, 40)], weights)
    found, result = nodes_of(tmp_path / "padded.onnx", graph)
    if not any("nchwc" in node.name for node in result.nodes):
        pytest.skip("ONNX Runtime does not compute in blocks on this CPU")
    places = 40 * 40
    flops = {name: found[name].flops for name in ("narrow", "each", "single")}
    assert flops == {"narrow": 2 * places * 20 * 27, "each": 2 * places * 20 * 9, "single": 2 * places * 20}
    assert found["narrow"].remark.startswith("20 output channels ")
    assert found["each"].remark.startswith("20 output channels ")
    assert found["single"].remark.startswith("1 output channel ")
    assert " and 20 input channels " in found["single"].remark
    told = [text for text in result.findings if "20 output channels are padded to" in text]
    assert any("narrow, " in text for text in told)


@pytest.mark.parametrize("trips", [48, 300])
def test_a_loop_that_grows_has_the_work_of_all_its_iterations(tmp_path: Path, trips: int) -> None:
    width = 16
    body = helper.make_graph(
        [
            helper.make_node("Concat", ["cache", "x"], ["longer"], axis=0, name="concat"),
            helper.make_node("MatMul", ["longer", "w"], ["keys"], name="keys"),
            helper.make_node("Identity", ["c_in"], ["c_out"], name="on"),
        ],
        "body",
        [info("i", dtype=INT64), info("c_in", dtype=BOOL), info("cache", "n", width)],
        [info("c_out", dtype=BOOL), info("longer", "m", width)],
    )
    nodes = [
        helper.make_node("Loop", ["trips", "", "x"], ["all"], name="loop", body=body),
        helper.make_node("MatMul", ["all", "w"], ["y"], name="last"),
    ]
    constants = [drawn_by_name("w", width, width), numpy_helper.from_array(np.int64(trips), "trips")]
    graph = helper.make_graph(nodes, "growing", [info("x", 1, width)], [info("y", "k", width)], constants)
    found, _ = nodes_of(tmp_path / "growing.onnx", graph)
    rows = sum(range(2, 2 + trips))
    assert found["keys"].flops == pytest.approx(2 * rows * width * width, rel=1e-3)
    assert found["last"].flops == 2 * (1 + trips) * width * width


def test_products_with_their_batches_elsewhere_and_all_behind_them(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], name="turn", perm=[1, 0, 2]),
        helper.make_node("MatMul", ["t", "w"], ["m"], name="product"),
        helper.make_node("Softmax", ["m"], ["y"], name="softmax"),
    ]
    graph = helper.make_graph(
        nodes, "batches", [info("x", 64, 8, 32)], [info("y", 8, 64, 16)], [drawn_by_name("w", 8, 32, 16)]
    )
    found, result = nodes_of(tmp_path / "batches.onnx", graph)
    assert {node.op_type for node in result.nodes} == {"FusedMatMul", "Softmax"}
    (product,) = (node for node in result.nodes if node.op_type == "FusedMatMul")
    assert product.flops == 2 * 8 * 64 * 16 * 32
    assert found["softmax"].flops == 5 * 8 * 64 * 16


def test_what_lies_behind_a_sequence_is_no_work(tmp_path: Path) -> None:
    node = helper.make_node("LSTM", ["x", "w", "r", "", "lengths"], ["y"], name="lstm", hidden_size=8)
    weights = [drawn_by_name("w", 1, 32, 4), drawn_by_name("r", 1, 32, 8)]
    graph = helper.make_graph(
        [node], "lengths", [info("x", 50, 2, 4), info("lengths", 2, dtype=TensorProto.INT32)],
        [info("y", 50, 1, 2, 8)], weights,
    )  # fmt: skip
    np.savez(tmp_path / "fed.npz", x=np.ones((50, 2, 4), np.float32), lengths=np.array([4, 6], np.int32))
    found, _ = nodes_of(tmp_path / "lengths.onnx", graph, inputs=tmp_path / "fed.npz")
    macs = (4 + 6) * 4 * 8 * (4 + 8)
    assert found["lstm"].flops == 2 * macs + 10 * 8 * (4 + 18)


def test_sizes_that_values_decide_are_known_from_the_profile(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["at"], name="where"),
        helper.make_node("Cast", ["at"], ["f"], name="cast", to=FLOAT),
        helper.make_node("Transpose", ["f"], ["t"], name="turn", perm=[1, 0]),
        helper.make_node("MatMul", ["t", "w"], ["y"], name="product"),
    ]
    graph = helper.make_graph(
        nodes, "values", [info("x", 6, 7)], [info("y", "n", 5)], [drawn_by_name("w", 2, 5)]
    )
    mask = np.zeros((6, 7), np.float32)
    mask[:3] = 1
    np.savez(tmp_path / "fed.npz", x=mask)
    found, _ = nodes_of(tmp_path / "values.onnx", graph, inputs=tmp_path / "fed.npz")
    product = next(node for node in found.values() if node.op_type in ("MatMul", "FusedMatMul"))
    assert product.flops == 2 * 21 * 2 * 5
