"""Layer groups: a product with what follows it, and which of them are equal."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from onnx import TensorProto, helper, numpy_helper

from onnx_text import assemble
from ortune.graph.groups import group_of_nodes, layer_groups


def chain(n: int = 4, *, names: bool = True) -> ir.Model:
    """Products of one shape, a bias and an activation behind each."""
    weights, nodes, value = [], [], "x"
    for i in range(n):
        weights.append(numpy_helper.from_array(np.full((8, 8), i + 1.0, np.float32), f"w{i}"))
        weights.append(numpy_helper.from_array(np.zeros(8, np.float32), f"b{i}"))
        nodes += [
            helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"], name=f"dense+{i}" if names else ""),
            helper.make_node("Add", [f"m{i}", f"b{i}"], [f"a{i}"]),
            helper.make_node("Relu", [f"a{i}"], [f"r{i}"]),
        ]
        value = f"r{i}"
    return ir.from_proto(
        assemble(
            nodes,
            "float[2,8] x",
            [helper.make_tensor_value_info(value, TensorProto.FLOAT, [2, 8])],
            weights,
            name="chain",
        )
    )


def test_a_group_is_a_product_with_what_follows_it() -> None:
    groups = layer_groups(chain())
    assert [sorted(group.values) for group in groups] == [[f"a{i}", f"m{i}", f"r{i}"] for i in range(4)]
    assert [group.reads for group in groups] == [frozenset(), {0}, {1}, {2}]


def test_groups_with_equal_neighbours_are_of_one_kind_whatever_their_weights_hold() -> None:
    kinds = [group.kind for group in layer_groups(chain())]
    assert kinds[1] == kinds[2]
    assert len(set(kinds)) == 3  # the first reads no product, and nobody reads the last


def test_a_name_that_a_parameter_cannot_hold_gives_way_to_the_values() -> None:
    assert [group.name for group in layer_groups(chain())] == ["m0", "m1", "m2", "m3"]
    assert [group.name for group in layer_groups(chain(names=False))] == ["m0", "m1", "m2", "m3"]


def test_nodes_of_another_form_belong_to_what_reads_them() -> None:
    model = chain(2)
    groups = layer_groups(model)
    product = next(node for node in model.graph if node.outputs[0].name == "m1")
    before = product.inputs[0]
    assert before is not None
    new = ir.Node("", "Identity", [before], name="conversion")
    model.graph.insert_before(product, new)
    product.replace_input_with(0, new.outputs[0])
    assert group_of_nodes(model.graph, groups)[new] == 1
