"""Decomposed patterns become the operator that the runtime has: every exporter's form, and each near miss told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from applied import check, fused_by_ort, outputs, reason, values
from fused_forms import (
    GELUS,
    NORMS,
    Maker,
    gelu_dynamo,
    gelu_half_first,
    gelu_torch,
    norm_moments,
    norm_plain,
)
from onnx import TensorProto
from optimised_models import optimised_session

import zoo
from graphs import FLOAT, Graph
from ortune import rewrites
from ortune.graph.model.open import open_model
from ortune.graph.model.save import save_model
from ortune.inputs import workload as workloads
from ortune.inputs.feeds import make_feeds

GELU, NORM, LOOKUP = "gelu", "layer-normalization", "one-hot-to-gather"


# Gelu


def gelu_model(form: Callable[[Maker, str], str], opset: int = 17) -> onnx.ModelProto:
    g = Graph()
    return g.model([2, 3, 8], [form(g, "x")], opset=opset)


@pytest.mark.parametrize("form", GELUS)
@pytest.mark.parametrize("opset", [13, 20])
def test_gelu_in_every_order(form: Callable[[Maker, str], str], opset: int, tmp_path: Path) -> None:
    model = gelu_model(form, opset)
    fused = fused_by_ort(model, tmp_path)
    if not fused["Mul"]:
        assert "itself fuses" in reason(GELU, model)
        return
    kinds = check(GELU, model, [values(2, 3, 8), values(2, 3, 8, seed=1) * 20])
    assert sum(kinds.values()) == 1
    assert set(kinds) <= {"Gelu", "FastGelu"}


@pytest.mark.parametrize(
    "forms", [(gelu_dynamo, gelu_half_first), (gelu_half_first, gelu_dynamo, gelu_dynamo)]
)
def test_several_gelus_of_one_value(forms: tuple[Callable[[Maker, str], str], ...]) -> None:
    g = Graph()
    kinds = check(GELU, g.model([2, 8], [form(g, "x") for form in forms]), [values(2, 8)])
    assert kinds == {"Gelu": len(forms)}


def test_a_gelu_whose_sum_is_read_elsewhere_is_told() -> None:
    g = Graph()
    y = gelu_dynamo(g, "x")
    added = next(node.output[0] for node in g.nodes if node.op_type == "Add")
    why = reason(GELU, g.model([2, 8], [y, added]))
    assert added in why
    assert "used elsewhere" in why


def test_a_gelu_of_float64_and_another_constant_are_left() -> None:
    g = Graph(np.float64)
    y = gelu_dynamo(g, "x")
    assert "not float32" in reason(GELU, g.model([2, 8], [y], dtype=TensorProto.DOUBLE))
    g = Graph()
    half = g.op(
        "Mul", g.number(0.4), g.op("Add", g.op("Erf", g.op("Div", "x", g.number(1.4142135))), g.number(1))
    )
    assert "no Gelu" in reason(GELU, g.model([2, 8], [g.op("Mul", "x", half)]))


@pytest.mark.parametrize(
    "limited",
    [
        lambda g, x: g.op("Neg", g.op("Max", g.op("Neg", x), g.number(-20))),
        lambda g, x: g.op("Neg", g.op("Max", g.op("Neg", x), g.op("Identity", g.number(-20)))),
        lambda g, x: g.op("Neg", g.op("Max", g.op("Neg", x), g.op("Neg", g.number(20)))),
        lambda g, x: g.op("Sub", g.number(20), g.op("Relu", g.op("Sub", g.number(20), x))),
        lambda g, x: g.op("Sub", g.op("Max", g.number(0), g.op("Add", x, g.number(20))), g.number(20)),
    ],
)
def test_a_limit_within_a_gelu_is_told(limited: Callable[[Graph, str], str]) -> None:
    g = Graph()
    half = g.op("Mul", limited(g, "x"), g.number(0.5))
    y = g.op("Mul", half, g.op("Add", g.op("Erf", g.op("Div", "x", g.number(2**0.5))), g.number(1)))
    assert "clamped by" in reason(GELU, g.model([2, 8], [y]))


# LayerNormalization


@pytest.mark.parametrize("form", NORMS)
@pytest.mark.parametrize("axis", [2, 1])
@pytest.mark.parametrize("opset", [13, 17])
def test_layer_normalization_in_every_form(
    form: Callable[[Maker, str, int, int, int], str], axis: int, opset: int, tmp_path: Path
) -> None:
    g = Graph()
    model = g.model(["n", 5, 8], [form(g, "x", axis, 8 if axis == 2 else 5, 3)], opset=opset)
    if fused_by_ort(model, tmp_path)["LayerNormalization"]:
        assert "itself fuses" in reason(NORM, model)
        return
    kinds = check(NORM, model, [values(2, 5, 8), values(1, 5, 8, seed=1) * 0.3 + 1])
    assert kinds == {"LayerNormalization": 1} | ({"Transpose": 2} if axis == 1 else {})


def test_torchs_form_between_transposes_is_left_by_onnx_runtime_and_is_made(tmp_path: Path) -> None:
    opened = open_model(zoo.model_path("piper-joe"))
    made = opened.ir.clone()
    assert "36 LayerNormalization" in rewrites.find(NORM).apply(made).what
    save_model(made, tmp_path / "made.onnx")
    feeds = {
        "input": np.arange(1, 21)[None],
        "input_lengths": np.array([20]),
        "scales": np.array([0, 1, 0], np.float32),  # no noise: outputs may be compared
    }
    kinds, session = optimised_session(opened.path, tmp_path)
    made_kinds, made_session = optimised_session(tmp_path / "made.onnx", tmp_path)
    assert not kinds["LayerNormalization"]
    assert made_kinds["LayerNormalization"] == 36
    ours, theirs = made_session.run(None, feeds), session.run(None, feeds)
    np.testing.assert_allclose(ours[0], theirs[0], atol=1e-3 * np.abs(theirs[0]).max())


def test_the_axis_may_go_and_come_back_by_a_reshape() -> None:
    g = Graph()
    shape = g.weight(np.array([-1, 1, 8], np.int64))
    mean = g.op("ReduceMean", "x", axes=[1], keepdims=0)
    squares = g.op("ReduceMean", g.op("Mul", "x", "x"), axes=[1], keepdims=0)
    variance = g.op("Sub", squares, g.op("Mul", mean, mean))
    root = g.op("Sqrt", g.op("Add", g.op("Reshape", variance, shape), g.number(1e-5)))
    y = g.op("Div", g.op("Sub", "x", g.op("Reshape", mean, shape)), root)
    assert check(NORM, g.model(["n", 5, 8], [y]), [values(3, 5, 8)])["LayerNormalization"] == 1


@pytest.mark.parametrize("opset", [11, 13])
def test_near_misses_of_a_normalisation_are_told(opset: int) -> None:
    g = Graph()
    y = norm_moments(g, "x", 2, 8, 3)
    if opset < 13:
        assert "opset 11" in reason(NORM, g.model([2, 5, 8], [y], opset=opset))
        return
    mean = next(node.output[0] for node in g.nodes if node.op_type == "ReduceMean")
    assert "used elsewhere" in reason(NORM, g.model([2, 5, 8], [y, mean], opset=opset))


def test_epsilon_added_to_the_deviation_is_no_layer_normalisation() -> None:
    g = Graph()
    centred = g.op("Sub", "x", g.op("ReduceMean", "x", axes=[2]))
    root = g.op("Sqrt", g.op("ReduceMean", g.op("Mul", centred, centred), axes=[2]))
    y = g.op("Div", centred, g.op("Add", root, g.number(1e-3)))
    assert "no LayerNormalization pattern" in reason(NORM, g.model([2, 5, 8], [y]))


def test_a_length_that_only_later_constants_tell_is_not_believed() -> None:
    g = Graph()
    turned = g.op("Einsum", "x", equation="abc->acb")
    centred = g.op("Sub", turned, g.op("ReduceMean", turned, axes=[-1]))
    variance = g.op("ReduceMean", g.op("Mul", centred, centred), axes=[-1])
    y = g.op("Div", centred, g.op("Sqrt", g.op("Add", variance, g.number(1e-5))))
    row = g.op("Add", g.op("ReduceMean", g.op("Mul", y, y), axes=[-1]), g.weight(values(7)))
    assert f"axis of {turned!r} is unknown" in reason(NORM, g.model(["n", "a", "b"], [row]))


def test_an_axis_counted_from_the_first_is_another_where_the_rank_is_not_known() -> None:
    g = Graph()
    turned = g.op("Einsum", "x", equation="abc->acb")
    centred = g.op("Sub", turned, g.op("ReduceMean", turned, axes=[-1]))
    variance = g.op("ReduceMean", g.op("Mul", centred, centred), axes=[1])
    y = g.op("Div", centred, g.op("Sqrt", g.op("Add", variance, g.number(1e-5))))
    assert reason(NORM, g.model([2, 8, 5], [g.op("Mul", y, g.weight(values(8)))]))


def test_the_gamma_may_not_differ_by_row() -> None:
    g = Graph()
    centred = g.op("Sub", "x", g.op("ReduceMean", "x", axes=[2]))
    variance = g.op("ReduceMean", g.op("Mul", centred, centred), axes=[2])
    y = g.op("Div", centred, g.op("Sqrt", g.op("Add", variance, g.number(1e-5))))
    scaled = g.op("Mul", y, g.weight(values(5, 8)))
    kinds = check(NORM, g.model([2, 5, 8], [scaled]), [values(2, 5, 8)])
    assert kinds == {"LayerNormalization": 1, "Mul": 1}


# One-hot


@pytest.mark.parametrize("shape", [["n", 8], ["n", 5, 8]])
def test_a_factor_that_an_axis_of_unknown_size_may_grow_by_stays(shape: list[int | str]) -> None:
    g = Graph()
    normed = norm_plain(g, "x", -1, 8, len(shape))
    grown = np.broadcast_to(values(8), (3, *[1] * (len(shape) - 2), 8))
    model = g.model(shape, [g.op("Mul", normed, g.weight(grown))])
    sizes = [5, 8][-len(shape) + 1 :]
    kinds = check(NORM, model, [values(1, *sizes), values(3, *sizes)])
    assert kinds == {"LayerNormalization": 1, "Mul": 1}


def one_hot(g: Graph, numbers: np.ndarray, *, swapped: bool = False) -> str:
    row = g.weight(numbers.reshape(1, 1, -1))
    code = g.op("Cast", g.op("Equal", *(["x", row][:: -1 if swapped else 1])), to=FLOAT)
    return g.op("MatMul", code, g.weight(values(numbers.size, 6)))


@pytest.mark.parametrize(("first", "swapped"), [(0, False), (1, True), (-2, False)])
def test_a_one_hot_code_is_looked_up(first: int, swapped: bool) -> None:
    g = Graph()
    product = one_hot(g, np.arange(first, first + 4, dtype=np.int32), swapped=swapped)
    biased = g.op("Add", product, g.weight(values(1, 1, 6, seed=3)))
    y = gelu_half_first(g, biased)
    model = g.model(["n", 7, 1], [y], dtype=TensorProto.INT32)
    extremes = np.array([-(2**31), 2**31 - 1, 0, 1, 2, 3, -2], np.int32).reshape(1, 7, 1)
    kinds = check(LOOKUP, model, [np.arange(-4, 10, dtype=np.int32).reshape(2, 7, 1), extremes])
    assert kinds["Gather"] == 1
    assert not {"MatMul", "Equal", "Erf", "Mul"} & kinds.keys()


def test_a_one_hot_operator_counts_from_the_end_too() -> None:
    g = Graph()
    code = g.op("OneHot", "x", g.weight(np.array(4, np.int64)), g.weight(np.array([0, 1], np.float32)))
    y = g.op("MatMul", code, g.weight(values(4, 6)))
    x = np.array([[-9, -5, -4, -1], [0, 3, 4, 9]], np.int64)
    kinds = check(LOOKUP, g.model([2, 4], [y], dtype=TensorProto.INT64), [x])
    assert "MatMul" not in kinds


def test_near_misses_of_a_one_hot_code_are_told() -> None:
    g = Graph()
    gap = one_hot(g, np.array([0, 1, 3], np.int32))
    assert "not consecutive" in reason(LOOKUP, g.model([2, 7, 1], [gap], dtype=TensorProto.INT32))
    g = Graph()
    wide = one_hot(g, np.arange(4, dtype=np.int32))
    assert "more than one value" in reason(LOOKUP, g.model([2, 7, "k"], [wide], dtype=TensorProto.INT32))


# Real models


@pytest.mark.parametrize(
    ("name", "rewrite", "what"),
    [
        ("magika", LOOKUP, "1 one-hot"),
        ("magika", GELU, "2 Gelu"),
        ("magika", NORM, "2 LayerNormalization"),
        ("minilm-int8", GELU, "6 Gelu"),
    ],
)
def test_on_real_models(name: str, rewrite: str, what: str, tmp_path: Path) -> None:
    opened = open_model(zoo.model_path(name))
    made = opened.ir.clone()
    assert what in rewrites.find(rewrite).apply(made).what
    save_model(made, tmp_path / "made.onnx")
    case = workloads.propose(opened.ir).cases[0]
    for seed in range(2):
        feeds = {k: v for k, v in make_feeds(opened.ir, case, seed=seed).items() if isinstance(v, np.ndarray)}
        pairs = zip(outputs(tmp_path / "made.onnx", feeds), outputs(opened.path, feeds), strict=True)
        for ours, theirs in pairs:
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_torchs_older_gelu_is_left_to_onnx_runtime() -> None:
    assert "itself fuses" in reason(GELU, gelu_model(gelu_torch))
