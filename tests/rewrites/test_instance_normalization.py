"""An instance normalisation that is written out becomes one operator; what is another function is left and told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from applied import check, fused_by_ort, reason, run, values
from fused_forms import (
    INSTANCES,
    Maker,
    instance_plain,
    instance_tensorflow,
    instance_torch,
    norm_plain,
    norm_torch,
)
from onnx import TensorProto

from graphs import Graph
from ortune import rewrites

INSTANCE = "instance-normalization"
Form = Callable[[Maker, str, int, int], str]


@pytest.mark.parametrize("form", INSTANCES)
@pytest.mark.parametrize("shape", [["n", 5, 6, 7], ["n", 5, "h", "w"], ["n", 5, 3, 4, 2], [1, 5, 300, 400]])
def test_every_form_becomes_one_operator(form: Form, shape: list[int | str], tmp_path: Path) -> None:
    g = Graph()
    model = g.model(shape, [form(g, "x", 5, len(shape))], opset=13)
    assert not {"InstanceNormalization", "LayerNormalization"} & fused_by_ort(model, tmp_path).keys()
    sizes = [size if isinstance(size, int) else 2 + at for at, size in enumerate(shape)]
    kinds = check(INSTANCE, model, [values(*sizes), values(*sizes, seed=1) * 0.02 + 0.5])
    assert kinds == {"InstanceNormalization": 1}


@pytest.mark.parametrize("form", [instance_torch, instance_tensorflow])
def test_over_one_axis_it_is_known_by_its_factors(form: Form) -> None:
    g = Graph()
    kinds = check(INSTANCE, g.model(["n", 5, 40], [form(g, "x", 5, 3)], opset=13), [values(2, 5, 40)])
    assert kinds == {"InstanceNormalization": 1}


def test_a_layer_normalisation_is_left_to_its_own_rewrite() -> None:
    g = Graph()
    assert "no InstanceNormalization" in reason(
        INSTANCE, g.model([2, 5, 8], [norm_torch(g, "x", 2, 8, 3)], opset=13)
    )
    g = Graph()
    model = g.model([2, 5, 8], [instance_plain(g, "x", 5, 3)], opset=13)
    assert "no InstanceNormalization" in reason(INSTANCE, model)
    assert check("layer-normalization", model, [values(2, 5, 8)])["LayerNormalization"] == 1


def test_the_axes_may_go_and_come_back() -> None:
    g = Graph()
    shape = g.weight(np.array([-1, 5, 1, 1], np.int64))
    mean = g.op("ReduceMean", "x", axes=[2, 3], keepdims=0)
    squares = g.op("ReduceMean", g.op("Mul", "x", "x"), axes=[2, 3], keepdims=0)
    variance = g.op("Sub", squares, g.op("Mul", mean, mean))
    root = g.op("Sqrt", g.op("Add", g.op("Reshape", variance, shape), g.number(1e-5)))
    y = g.op("Div", g.op("Sub", "x", g.op("Reshape", mean, shape)), root)
    assert check(INSTANCE, g.model(["n", 5, 6, 7], [y], opset=13), [values(3, 5, 6, 7)]) == {
        "InstanceNormalization": 1
    }


def test_two_of_one_tensor() -> None:
    g = Graph()
    both = [instance_torch(g, "x", 5, 4), instance_plain(g, "x", 5, 4)]
    kinds = check(INSTANCE, g.model([2, 5, 6, 7], both, opset=13), [values(2, 5, 6, 7)])
    assert kinds == {"InstanceNormalization": 2}


def test_factors_by_position_stay_behind_it() -> None:
    g = Graph()
    scaled = g.op("Mul", instance_plain(g, "x", 5, 4), g.weight(values(6, 7)))
    kinds = check(INSTANCE, g.model([2, 5, 6, 7], [scaled], opset=13), [values(2, 5, 6, 7)])
    assert kinds == {"InstanceNormalization": 1, "Mul": 1}


def test_a_factor_that_the_batch_may_grow_by_stays() -> None:
    g = Graph()
    model = g.model(
        ["n", 5, 6, 7], [g.op("Mul", instance_plain(g, "x", 5, 4), g.weight(np.full((3, 1, 1, 1), 2.0)))]
    )
    kinds = check(INSTANCE, model, [values(1, 5, 6, 7), values(3, 5, 6, 7)])
    assert kinds == {"InstanceNormalization": 1, "Mul": 1}


@pytest.mark.parametrize(
    ("sizes", "count"), [(["h", "w"], 9), (["h", "w"], 16), ([300, 400], 16), ([300, 400], 25)]
)
def test_a_sum_over_a_number_of_its_own_is_no_mean(sizes: list[int | str], count: int) -> None:
    g = Graph()
    centred = g.op("Sub", "x", g.op("ReduceMean", "x", axes=[2, 3]))
    total = g.op("ReduceSum", g.op("Mul", centred, centred), g.weight(np.array([2, 3])))
    variance = g.op("Mul", total, g.number(1 / count))
    y = g.op("Div", centred, g.op("Sqrt", g.op("Add", variance, g.number(1e-5))))
    assert "no InstanceNormalization" in reason(INSTANCE, g.model([1, 5, *sizes], [y], opset=13))


def test_near_misses_are_told() -> None:
    g = Graph()
    y = instance_plain(g, "x", 5, 4)
    mean = next(node.output[0] for node in g.nodes if node.op_type == "ReduceMean")
    why = reason(INSTANCE, g.model([2, 5, 6, 7], [y, mean], opset=13))
    assert mean in why
    assert "used elsewhere" in why
    g = Graph()
    unknown = g.model([2, "c", 6, 7], [instance_plain(g, "x", 5, 4)], opset=13)
    assert "number of channels" in reason(INSTANCE, unknown)
    g = Graph(np.float64)
    double = g.model([2, 5, 6, 7], [instance_plain(g, "x", 5, 4)], opset=13, dtype=TensorProto.DOUBLE)
    assert "not float32" in reason(INSTANCE, double)


def test_other_axes_and_an_epsilon_elsewhere_are_other_functions() -> None:
    g = Graph()
    centred = g.op("Sub", "x", g.op("ReduceMean", "x", axes=[1, 2]))  # channels are last
    variance = g.op("ReduceMean", g.op("Mul", centred, centred), axes=[1, 2])
    y = g.op("Div", centred, g.op("Sqrt", g.op("Add", variance, g.number(1e-5))))
    assert "no InstanceNormalization" in reason(INSTANCE, g.model([2, 6, 7, 5], [y], opset=13))
    g = Graph()
    centred = g.op("Sub", "x", g.op("ReduceMean", "x", axes=[2, 3]))
    root = g.op("Sqrt", g.op("ReduceMean", g.op("Mul", centred, centred), axes=[2, 3]))
    y = g.op("Div", centred, g.op("Add", root, g.number(1e-3)))
    assert "no InstanceNormalization" in reason(INSTANCE, g.model([2, 5, 6, 7], [y], opset=13))


def test_a_group_normalisation_as_exporters_write_it_is_left() -> None:
    g = Graph()
    grouped = g.op("Reshape", "x", g.weight(np.array([0, 2, -1], np.int64)))
    ones, zeros = g.weight(np.ones(2)), g.weight(np.zeros(2))
    plain = g.op("InstanceNormalization", grouped, ones, zeros)
    scaled = g.op("Mul", g.op("Reshape", plain, g.weight(np.array([2, 6, 5, 5]))), g.weight(values(6, 1, 1)))
    model = g.model([2, 6, 5, 5], [g.op("Add", scaled, g.weight(values(6, 1, 1, seed=1)))], opset=13)
    assert "no InstanceNormalization" in reason(INSTANCE, model)


def test_a_mean_of_what_has_no_inputs_is_none() -> None:
    g = Graph()
    noise = g.op("RandomNormal", shape=[1, 2, 3, 4])
    y = g.op("Add", "x", g.op("ReduceMean", noise, axes=[2, 3]))
    model = g.model([1, 2, 3, 4], [y], opset=13)
    assert "no InstanceNormalization" in reason(INSTANCE, model)
    assert rewrites.pipeline(ir.from_proto(model)) == ()


@pytest.mark.parametrize(
    "root",
    [
        lambda g, v: g.op("Sqrt", g.op("Add", g.op("Max", v, g.number(1e-6)), g.number(1e-8))),
        lambda g, v: g.op("Sqrt", g.op("Add", g.op("Max", v, g.number(1e-12)), g.number(1e-5))),
        lambda g, v: g.op("Add", g.op("Sqrt", v), g.number(1e-11)),
    ],
)
def test_what_is_felt_at_small_variances_alone_is_another_function(root: Callable[[Graph, str], str]) -> None:
    g = Graph()
    centred = g.op("Sub", "x", g.op("ReduceMean", "x", axes=[2, 3]))
    variance = g.op("ReduceMean", g.op("Mul", centred, centred), axes=[2, 3])
    model = g.model([1, 3, 8, 8], [g.op("Div", centred, root(g, variance))], opset=13)
    assert reason(INSTANCE, model)


@pytest.mark.parametrize("name", [INSTANCE, "layer-normalization"])
def test_a_bound_that_few_inputs_reach_stays_behind_the_operator(name: str) -> None:
    g = Graph()
    whole = name == INSTANCE
    y = instance_plain(g, "x", 3, 4) if whole else norm_plain(g, "x", -1, 64, 4)
    model = g.model([1, 3, 8, 8 if whole else 64], [g.op("Max", y, g.number(-7.5))], opset=13)
    x = values(1, 3, 8, 8 if whole else 64) * 0.01
    x[:, :, 0, 0] = -9
    x[:, :, 1:, 0] = -9 if not whole else x[:, :, 1:, 0]
    assert (run(model, x)[0] == -7.5).any()
    kinds = check(name, model, [x, values(*x.shape)])
    assert kinds["Max"] == 1 and sum(kinds.values()) == 2
