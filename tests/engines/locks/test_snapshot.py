"""What a lock computes without running: structure, sizes of fused operators, and memory by lifetimes."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from onnx_text import assemble
from ortune.engines.locks.snapshot.memory import Memory, Sizes, byte_sizes, depth_first, memory
from ortune.engines.locks.snapshot.observed import observed_sizes
from ortune.engines.locks.snapshot.optimised import saved_graph
from ortune.engines.locks.snapshot.structure import operators, structure


def model(
    nodes: list[onnx.NodeProto], *, outputs: str = "y", dims: tuple[int | str, ...] = (2, 8)
) -> onnx.ModelProto:
    shown = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs.split()]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(dims))]
    return assemble(nodes, given, shown, opsets={"com.microsoft": 1})


def node(op: str, inputs: str, outputs: str, domain: str = "", **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), domain=domain, **attributes)


def sizes_of(made: onnx.ModelProto, **fed: tuple[int, ...]) -> Sizes:
    return byte_sizes(ir.from_proto(made), fed)


def held(made: onnx.ModelProto, *dims: int, **observed: int) -> Memory:
    """Memory with an "x" of the given dimensions."""
    return memory(made.graph, sizes_of(made, x=dims) | observed)


def wiring(made: onnx.ModelProto) -> str:
    return structure(ir.from_proto(made))


BRANCHES = [node("Relu", "x", "a"), node("Tanh", "x", "b"), node("Add", "a b", "y")]


def test_names_and_order_are_no_structure() -> None:
    renamed = [node("Tanh", "x", "q"), node("Relu", "x", "p"), node("Add", "p q", "y")]
    assert wiring(model(renamed)) == wiring(model(BRANCHES))


@pytest.mark.parametrize(
    "other",
    [
        [node("Relu", "x", "a"), node("Tanh", "a", "b"), node("Add", "a b", "y")],
        [node("Relu", "x", "a"), node("Tanh", "x", "b"), node("Add", "a a", "y")],
        [node("LeakyRelu", "x", "a", alpha=0.1), node("Tanh", "x", "b"), node("Add", "a b", "y")],
    ],
)
def test_wiring_and_operators_are_structure(other: list[onnx.NodeProto]) -> None:
    assert wiring(model(other)) != wiring(model(BRANCHES))


def test_attributes_and_axes_are_structure_and_constants_are_weights() -> None:
    def softmax(axis: int) -> str:
        return wiring(model([node("Softmax", "x", "y", axis=axis)]))

    def squeezed(axis: int, *, as_node: bool) -> onnx.ModelProto:
        axes = helper.make_tensor("axes", TensorProto.INT64, [1], [axis])
        made = model(
            ([node("Constant", "", "axes", value=axes)] if as_node else [])
            + [node("Unsqueeze", "x axes", "y")]
        )
        made.graph.initializer.extend([] if as_node else [axes])
        return made

    assert softmax(0) != softmax(1)
    assert wiring(squeezed(0, as_node=True)) == wiring(squeezed(0, as_node=False))
    assert wiring(squeezed(0, as_node=True)) != wiring(squeezed(1, as_node=True))
    assert operators(squeezed(0, as_node=True).graph) == {"Unsqueeze": 1}


def test_a_name_of_a_dynamic_dimension_is_no_structure() -> None:
    n, batch, two = (wiring(model(BRANCHES, dims=dims)) for dims in (("N", 8), ("batch", 8), (2, 8)))
    assert n == batch != two


def test_memory_follows_lifetimes() -> None:
    chain = [node("Relu", "x", "a"), node("Tanh", "a", "b"), node("Sin", "b", "y")]
    unit = 4 * 2 * 8
    # The input is held by the caller; of the chain two values are alive at a time.
    assert held(model(chain), 2, 8).peak_activation_bytes == 3 * unit
    kept = [*chain[:2], node("Add", "a b", "y")]
    assert held(model(kept), 2, 8).peak_activation_bytes == 4 * unit
    shaped = [node("Relu", "x", "a"), node("Flatten", "a", "f"), node("Tanh", "f", "y")]
    assert held(model(shaped), 2, 8).peak_activation_bytes == 3 * unit


def test_the_order_of_nodes_in_the_file_is_no_memory() -> None:
    """ONNX Runtime saves the same graph in another order in every process."""
    wide = [node("Concat", "x x x x", "w", axis=0), node("ReduceSum", "w", "s", keepdims=1)]
    narrow = [node("Relu", "x", "a"), node("Tanh", "a", "b")]
    end = [node("Add", "s b", "y")]
    orders = [[*wide, *narrow, *end], [*narrow, *wide, *end], [narrow[0], wide[0], narrow[1], wide[1], *end]]
    found = [held(model(nodes), 2, 8).peak_activation_bytes for nodes in orders]
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
    assert held(dynamic, 5, 8).peak_activation_bytes == 4 * 4 * 5 * 8
    assert held(dynamic, 5, 8).unknown_values == 0


def test_fused_operators_have_sizes_and_unknown_ones_are_counted() -> None:
    ms = "com.microsoft"
    fused = [
        node("FusedMatMul", "x x", "p", ms, transB=1),
        node("Gelu", "p", "g", ms),
        node("Odd", "g", "y", "mine"),
    ]
    made = model(fused)
    made.opset_import.append(helper.make_opsetid("mine", 1))
    sizes = sizes_of(made, x=(2, 8))
    assert (sizes["p"], sizes["g"]) == (16, 16)
    assert held(made, 2, 8).unknown_values == 1
    assert held(made, 2, 8, y=40).unknown_values == 0


def attention(query: tuple[int, ...], *others: tuple[int, ...]) -> onnx.ModelProto:
    """Attention with two heads over the given operands; "y" comes out, and the keys and values so far."""
    names = ["x", "k", "v"][: 1 + len(others)]
    made = model(
        [
            node(
                "MultiHeadAttention",
                " ".join(names),
                "y present_key present_value",
                "com.microsoft",
                num_heads=2,
            )
        ],
        dims=query,
    )
    made.graph.input.extend(
        helper.make_tensor_value_info(n, TensorProto.FLOAT, dims)
        for n, dims in zip(names[1:], others, strict=True)
    )
    return made


@pytest.mark.parametrize(
    ("operands", "out", "keys", "contents"),
    [
        # Queries, keys and values in one: three times what comes out.
        ([(1, 4, 2, 3, 8)], 4 * 2 * 8, 2 * 4 * 8, 2 * 4 * 8),
        # Values wider than queries: as wide as they is what comes out.
        ([(1, 4, 16), (1, 6, 16), (1, 6, 32)], 4 * 32, 2 * 6 * 8, 2 * 6 * 16),
        # Keys and values of another sequence, their heads apart.
        ([(1, 4, 16), (1, 2, 6, 8), (1, 2, 6, 8)], 4 * 16, 2 * 6 * 8, 2 * 6 * 8),
    ],
)
def test_attention_has_the_sizes_that_come_out(
    operands: list[tuple[int, ...]], out: int, keys: int, contents: int
) -> None:
    fed = dict(zip("xkv", operands, strict=False))
    sizes = sizes_of(attention(*operands), **fed)
    assert {name: sizes.get(name) for name in ("y", "present_key", "present_value")} == {
        "y": 4 * out, "present_key": 4 * keys, "present_value": 4 * contents,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "per_byte"), [("INT2", 4), ("UINT2", 4), ("INT4", 2), ("UINT4", 2), ("FLOAT4E2M1", 2)]
)
def test_values_of_less_than_a_byte_are_packed(kind: str, per_byte: int) -> None:
    number = TensorProto.DataType.Value(kind)
    made = model([node("Cast", "x", "q", to=number), node("Cast", "q", "y", to=TensorProto.FLOAT)])
    made.graph.initializer.append(TensorProto(name="w", data_type=number, dims=[3, 5], raw_data=bytes(8)))
    made.opset_import[0].version = 25
    assert sizes_of(made, x=(3, 5))["q"] == -(-15 // per_byte)
    assert held(made, 3, 5).weights_bytes == -(-15 // per_byte)


def test_blocks_of_channels_take_what_fills_the_last_one() -> None:
    blocks = "com.microsoft.nchwc"
    made = model(
        [node("ReorderInput", "x", "r", blocks), node("Conv", "r w", "y", blocks, group=16)],
        dims=(1, 12, 8, 8),
    )
    made.opset_import.append(helper.make_opsetid(blocks, 1))
    made.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [16, 1, 1, 1], [0.0] * 16))
    assert sizes_of(made, x=(1, 12, 8, 8))["y"] == 4 * 16 * 8 * 8


@pytest.mark.parametrize(("opset", "bytes_each"), [(9, 4), (10, 1)])
def test_the_mask_of_a_dropout_was_no_bool_before_opset_10(opset: int, bytes_each: int) -> None:
    made = model([node("Dropout", "x", "y mask")])
    made.opset_import[0].version = opset
    assert sizes_of(made, x=(2, 8))["mask"] == bytes_each * 16


def test_a_saved_graph_is_read_without_its_data(tmp_path: Path) -> None:
    """Nor does it matter that a Constant of a branch is saved as an initializer too, and what outputs declare."""
    axes = helper.make_tensor("axes", TensorProto.INT64, [1], [0])
    branch = helper.make_graph(
        [node("Constant", "", "axes", value=axes), node("Unsqueeze", "p axes", "i")],
        "b", [], [helper.make_tensor_value_info("i", 1, None)], [axes],
    )  # fmt: skip
    either = helper.make_node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch)
    made = model([node("MatMul", "x w", "p"), either], dims=("N", 512))
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [9, 9, 9]))
    made.graph.input.append(helper.make_tensor_value_info("yes", TensorProto.BOOL, []))
    weight = made.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[512, 3])
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="gone.data")
    onnx.save(made, tmp_path / "saved.onnx")
    saved = saved_graph(tmp_path / "saved.onnx")
    sizes = byte_sizes(saved.model, {"x": (5, 512)})
    assert {name: sizes[name] for name in "piy"} == dict.fromkeys("piy", 4 * 5 * 3)
    assert memory(saved.graph, sizes).weights_bytes == 4 * 512 * 3 + 2 * 8
    assert memory(saved.graph, sizes).unknown_values == 0


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
