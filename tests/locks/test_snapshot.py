"""What a lock computes without running: structure, sizes of fused operators, and memory by lifetimes."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from ortune.locks.snapshot.memory import depth_first, memory
from ortune.locks.snapshot.observed import observed_sizes
from ortune.locks.snapshot.shapes import byte_sizes
from ortune.locks.snapshot.structure import operators, structure


def model(
    nodes: list[onnx.NodeProto], *, outputs: str = "y", dims: tuple[int | str, ...] = (2, 8)
) -> onnx.ModelProto:
    shown = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs.split()]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(dims))]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(helper.make_graph(nodes, "g", given, shown), opset_imports=opsets)


def node(op: str, inputs: str, outputs: str, domain: str = "", **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), domain=domain, **attributes)


BRANCHES = [node("Relu", "x", "a"), node("Tanh", "x", "b"), node("Add", "a b", "y")]


def test_names_and_order_are_no_structure() -> None:
    renamed = [node("Tanh", "x", "q"), node("Relu", "x", "p"), node("Add", "p q", "y")]
    assert structure(model(renamed).graph) == structure(model(BRANCHES).graph)


@pytest.mark.parametrize(
    "other",
    [
        [node("Relu", "x", "a"), node("Tanh", "a", "b"), node("Add", "a b", "y")],
        [node("Relu", "x", "a"), node("Tanh", "x", "b"), node("Add", "a a", "y")],
        [node("LeakyRelu", "x", "a", alpha=0.1), node("Tanh", "x", "b"), node("Add", "a b", "y")],
    ],
)
def test_wiring_and_operators_are_structure(other: list[onnx.NodeProto]) -> None:
    assert structure(model(other).graph) != structure(model(BRANCHES).graph)


def test_attributes_and_axes_are_structure_and_constants_are_weights() -> None:
    def softmax(axis: int) -> str:
        return structure(model([node("Softmax", "x", "y", axis=axis)]).graph)

    def squeezed(axis: int, *, as_node: bool) -> onnx.ModelProto:
        axes = helper.make_tensor("axes", TensorProto.INT64, [1], [axis])
        made = model(
            ([node("Constant", "", "axes", value=axes)] if as_node else [])
            + [node("Unsqueeze", "x axes", "y")]
        )
        made.graph.initializer.extend([] if as_node else [axes])
        return made

    assert softmax(0) != softmax(1)
    assert structure(squeezed(0, as_node=True).graph) == structure(squeezed(0, as_node=False).graph)
    assert structure(squeezed(0, as_node=True).graph) != structure(squeezed(1, as_node=True).graph)
    assert operators(squeezed(0, as_node=True).graph) == {"Unsqueeze": 1}


def test_a_name_of_a_dynamic_dimension_is_no_structure() -> None:
    graphs = [model(BRANCHES, dims=dims).graph for dims in (("N", 8), ("batch", 8), (2, 8))]
    assert structure(graphs[0]) == structure(graphs[1]) != structure(graphs[2])


def test_memory_follows_lifetimes() -> None:
    chain = [node("Relu", "x", "a"), node("Tanh", "a", "b"), node("Sin", "b", "y")]
    unit = 4 * 2 * 8
    # The input is held by the caller; of the chain two values are alive at a time.
    assert memory(model(chain), {"x": (2, 8)}, {}).peak_activation_bytes == 3 * unit
    kept = [*chain[:2], node("Add", "a b", "y")]
    assert memory(model(kept), {"x": (2, 8)}, {}).peak_activation_bytes == 4 * unit
    shaped = [node("Relu", "x", "a"), node("Flatten", "a", "f"), node("Tanh", "f", "y")]
    assert memory(model(shaped), {"x": (2, 8)}, {}).peak_activation_bytes == 3 * unit


def test_the_order_of_nodes_in_the_file_is_no_memory() -> None:
    """ONNX Runtime saves the same graph in another order in every process."""
    wide = [node("Concat", "x x x x", "w", axis=0), node("ReduceSum", "w", "s", keepdims=1)]
    narrow = [node("Relu", "x", "a"), node("Tanh", "a", "b")]
    end = [node("Add", "s b", "y")]
    orders = [[*wide, *narrow, *end], [*narrow, *wide, *end], [narrow[0], wide[0], narrow[1], wide[1], *end]]
    found = [memory(model(nodes), {"x": (2, 8)}, {}).peak_activation_bytes for nodes in orders]
    unit = 4 * 2 * 8
    assert found == [5 * unit + 4] * 3
    assert [n.op_type for n in depth_first(model(orders[1]).graph)] == [
        "Concat", "ReduceSum", "Relu", "Tanh", "Add",
    ]  # fmt: skip


def test_a_body_that_reads_an_outer_value_comes_after_it() -> None:
    inner = helper.make_graph(
        [node("Add", "a a", "i")], "b", [], [helper.make_tensor_value_info("i", 1, None)]
    )
    choice = helper.make_node("If", ["yes"], ["y"], then_branch=inner, else_branch=inner)
    made = model([node("Relu", "x", "a"), choice])
    assert [n.op_type for n in depth_first(made.graph)] == ["Relu", "If"]


def test_dynamic_sizes_come_from_what_is_fed() -> None:
    dynamic = model(BRANCHES, dims=("N", 8))
    assert memory(dynamic, {"x": (5, 8)}, {}).peak_activation_bytes == 4 * 4 * 5 * 8
    assert memory(dynamic, {"x": (5, 8)}, {}).unknown_values == 0


def test_fused_operators_have_sizes_and_unknown_ones_are_counted() -> None:
    ms = "com.microsoft"
    fused = [
        node("FusedMatMul", "x x", "p", ms, transB=1),
        node("Gelu", "p", "g", ms),
        node("Odd", "g", "y", "mine"),
    ]
    made = model(fused)
    made.opset_import.append(helper.make_opsetid("mine", 1))
    sizes = byte_sizes(made, {"x": (2, 8)})
    assert (sizes["p"], sizes["g"]) == (16, 16)
    assert memory(made, {"x": (2, 8)}, {}).unknown_values == 1
    assert memory(made, {"x": (2, 8)}, {"y": 40}).unknown_values == 0


def test_sizes_seen_in_a_run(tmp_path: Path) -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["y"], name="nz"), helper.make_node("Relu", ["x"], ["z"])]
    events = [
        {"cat": "Node", "name": "nz_kernel_time", "args": {"output_type_shape": [{"int64": [2, n]}]}}
        for n in (3, 5, 4)
    ]
    profile = tmp_path / "p.json"
    profile.write_text(json.dumps(events), encoding="utf-8")
    graph = model(nodes, outputs="y z").graph
    assert observed_sizes(profile, graph) == {"y": 8 * 2 * 5}
    profile.write_text("[{", encoding="utf-8")
    assert observed_sizes(profile, graph) == {}
