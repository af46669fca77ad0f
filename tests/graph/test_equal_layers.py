"""Equal layers and unrolled steps are one region, whatever their nodes and values are called."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from onnx_text import assemble
from ortune.graph.model.open import open_model
from ortune.graph.regions import regions, share
from ortune.rules.graph.unrolled_recurrence import _cells
from zoo import model_path

WIDTH = 4


def layers(count: int, widths: tuple[int, ...] = ()) -> ir.Model:
    """Products with an activation and a sum around both, one after another, between a first and a last node."""
    rng = np.random.default_rng(0)
    tensors, nodes, x, width = [], [helper.make_node("Neg", ["x"], ["x0"], name="first")], "x0", WIDTH
    for i in range(count):
        out = widths[i] if widths else WIDTH
        tensors.append(numpy_helper.from_array(rng.standard_normal((width, out)).astype("f"), f"w{i}"))
        nodes += [
            helper.make_node("MatMul", [x, f"w{i}"], [f"m{i}"], name=f"a{i}"),
            helper.make_node("Tanh", [f"m{i}"], [f"t{i}"], name=f"b{i}"),
            helper.make_node("Add", [f"t{i}", f"m{i}"], [f"y{i}"], name=f"c{i}"),
        ]
        x, width = f"y{i}", out
    nodes.append(helper.make_node("Neg", [x], ["out"], name="last"))
    return ir.serde.deserialize_model(assemble(nodes, f"float[2,{WIDTH}] x", "float[] out", tensors))


def test_equal_layers_are_one_region_with_their_share() -> None:
    (region,) = regions(layers(12))
    assert (region.copies, region.n_nodes) == (12, 3)
    assert region.operators == {"Add": 12, "MatMul": 12, "Tanh": 12}
    assert region.nodes[:3] == ("a0", "b0", "c0")
    times = dict.fromkeys((*region.nodes, "first", "last"), 1.0)
    assert share(region, times) == pytest.approx(36 / 38)
    assert share(region, {}) == 0
    # What the optimiser inserted has a time too, and is no node of the model.
    assert share(region, times, total=72.0) == pytest.approx(0.5)


def test_layers_with_other_weights_are_not_equal() -> None:
    assert regions(layers(4, widths=(4, 5, 6, 7))) == []
    first, second = regions(layers(6, widths=(4, 4, 4, 8, 8, 8)))
    # The first layer of the second half has a weight of its own shape.
    assert (first.copies, second.copies) == (3, 2)


def test_unrolled_steps_are_one_region() -> None:
    model = ir.serde.deserialize_model(_cells(20, "step"))
    (region,) = regions(model)
    assert (region.copies, region.n_nodes) == (20, 5)
    assert region.operators["MatMul"] == 40 and region.operators["Tanh"] == 20


def test_a_model_of_a_zoo_has_its_layers() -> None:
    first = regions(open_model(model_path("minilm-int8")).ir)[0]
    # Five of its six: the first has nodes that all of them share.
    assert (first.copies, first.n_nodes) == (5, 46)


def test_equal_nodes_in_a_row_are_no_layer() -> None:
    nodes = [helper.make_node("Neg", [f"x{i}"], [f"x{i + 1}"], name=f"n{i}") for i in range(40)]
    assert regions(ir.serde.deserialize_model(assemble(nodes, "float[2] x0", "float[2] x40"))) == []
