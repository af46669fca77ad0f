"""A Softmax that is written out becomes one operator, in every form; what is another number is left and told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from applied import apply, check, fused_by_ort, outputs, reason, run, values
from fused_forms import LOG_SOFTMAXES, SOFTMAXES, Maker, softmax_bare, softmax_guarded, softmax_jax
from onnx import TensorProto

import zoo
from facts import facts
from graphs import Graph
from ortune import rewrites
from ortune.graph.model.open import open_model
from ortune.graph.model.save import save_model
from ortune.inputs import workload as workloads
from ortune.inputs.feeds import make_feeds

SOFTMAX = "softmax"
Form = Callable[[Maker, str, int], str]


def kept_by_ort(model: onnx.ModelProto, folder: Path) -> bool:
    """Whether ONNX Runtime itself makes no operator of it."""
    return not {"Softmax", "LogSoftmax"} & fused_by_ort(model, folder).keys()


@pytest.mark.parametrize("form", [*SOFTMAXES, *LOG_SOFTMAXES])
@pytest.mark.parametrize(("axis", "opset"), [(-1, 13), (2, 17)])
def test_every_form_becomes_one_operator(form: Form, axis: int, opset: int, tmp_path: Path) -> None:
    g = Graph()
    model = g.model(["n", 5, 8], [form(g, "x", axis)], opset=opset)
    assert kept_by_ort(model, tmp_path)
    kinds = check(SOFTMAX, model, [values(2, 5, 8), values(1, 5, 8, seed=1) * 10, values(0, 5, 8)])
    assert kinds == {"LogSoftmax" if form in LOG_SOFTMAXES else "Softmax": 1}


@pytest.mark.parametrize("shape", [["n", 8], ["n", "k"], [3, 1000]])
def test_an_axis_may_go_and_come_back(shape: list[int | str]) -> None:
    g = Graph()
    x = values(3, 1000 if shape[1] == 1000 else 8)
    assert check(SOFTMAX, g.model(shape, [softmax_jax(g, "x", 1)]), [x]) == {"Softmax": 1}


def test_one_of_what_came_out_of_another() -> None:
    g = Graph()
    model = g.model([2, 8], [softmax_guarded(g, softmax_bare(g, "x", -1), 1)])
    assert check(SOFTMAX, model, [values(2, 8)]) == {"Softmax": 2}


def test_large_tensors_are_tried_with_smaller_ones() -> None:
    g = Graph()
    model = g.model([4, 300, 900], [softmax_guarded(g, "x", 2)])
    assert check(SOFTMAX, model, [values(4, 300, 900)]) == {"Softmax": 1}


def test_where_the_written_form_overflows_the_operator_does_not() -> None:
    g = Graph()
    model = g.model([3, 4], [softmax_bare(g, "x", -1)])
    made, _, _ = apply(SOFTMAX, model)
    x = np.array([[100, 0, 0, 0], [88, 88, 88, 88], [-200, -200, -200, -200]], np.float32)
    (before,), (after,) = run(model, x), run(made, x)
    assert not np.isclose(before.sum(axis=1), 1).any()
    np.testing.assert_allclose(after, [[1, 0, 0, 0], [0.25] * 4, [0.25] * 4], atol=1e-6)


@pytest.mark.parametrize("opset", [9, 11])
def test_before_opset_13_the_last_axis_counts_from_the_first(opset: int) -> None:
    g = Graph()
    powers = g.op("Exp", g.op("Sub", "x", g.op("ReduceMax", "x", axes=[2])))
    model = g.model([2, 5, 8], [g.op("Div", powers, g.op("ReduceSum", powers, axes=[2]))], opset=opset)
    assert check(SOFTMAX, model, [values(2, 5, 8)]) == {"Softmax": 1}
    (node,) = apply(SOFTMAX, model)[0].graph.node
    assert node.attribute[0].i == 2


def test_before_opset_13_the_rank_must_be_known() -> None:
    g = Graph()
    free = g.op("Reshape", "x", "sizes")
    powers = g.op("Exp", free)
    y = g.op("Div", powers, g.op("ReduceSum", powers, axes=[-1]))
    model = g.model([2, 5, 8], [y], opset=11)
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info(y, TensorProto.FLOAT, [None] * 3))
    model.graph.input.append(onnx.helper.make_tensor_value_info("sizes", TensorProto.INT64, ["r"]))
    assert "last axis of" in reason(SOFTMAX, model)


def test_an_inner_axis_is_left_and_told() -> None:
    g = Graph()
    assert "the last axis" in reason(SOFTMAX, g.model([2, 5, 8], [softmax_guarded(g, "x", 1)]))
    # What was written out for speed stays as it is.
    g = Graph()
    made, result, _ = apply(
        "softmax-over-inner-axis", g.model([1, 4, 40, 40], [g.op("Softmax", "x", axis=1)])
    )
    assert result.modified
    assert "the last axis" in reason(SOFTMAX, made)


def test_who_else_reads_the_exponentials_is_told() -> None:
    g = Graph()
    y = softmax_guarded(g, "x", -1)
    powers = next(node.output[0] for node in g.nodes if node.op_type == "Exp")
    why = reason(SOFTMAX, g.model([2, 8], [y, powers]))
    assert powers in why
    assert "used elsewhere" in why


def test_a_logarithm_of_shares_is_not_that_of_the_sum() -> None:
    g = Graph()
    model = g.model([2, 8], [g.op("Log", softmax_guarded(g, "x", -1))])
    assert check(SOFTMAX, model, [values(2, 8)]) == {"Softmax": 1, "Log": 1}
    g = Graph()
    model = g.model([1, 2], [g.op("Log", g.op("Softmax", "x", axis=-1))])
    assert "minus infinity" in reason(SOFTMAX, model)
    assert not np.isclose(run(model, np.array([[0, -120]], np.float32))[0][0, 1], -120, atol=1)


def test_other_types_and_other_functions_are_left() -> None:
    g = Graph(np.float64)
    model = g.model([2, 8], [softmax_guarded(g, "x", -1)], dtype=TensorProto.DOUBLE)
    assert "float32" in reason(SOFTMAX, model)
    g = Graph()
    shifted = g.op("Exp", g.op("Sub", "x", g.number(5)))
    total = g.op("ReduceSum", shifted, g.weight(np.array([-1])))
    kinds = check(SOFTMAX, g.model([2, 8], [g.op("Div", shifted, total)]), [values(2, 8)])
    assert kinds == {"Sub": 1, "Softmax": 1}
    g = Graph()
    powers = g.op("Exp", "x")
    total = g.op("Add", g.op("ReduceSum", powers, g.weight(np.array([-1]))), g.number(1e-12))
    assert "small values" in reason(SOFTMAX, g.model([2, 8], [g.op("Div", powers, total)]))
    g = Graph()
    warm = g.op("Exp", g.op("Mul", g.op("Tanh", "x"), g.number(0.5)))
    tempered = g.op("Div", warm, g.op("ReduceSum", warm, g.weight(np.array([-1]))))
    assert check(SOFTMAX, g.model([2, 8], [tempered]), [values(2, 8)])["Softmax"] == 1
    g = Graph()
    powers = g.op("Exp", "x")
    mean = g.op("Div", powers, g.op("ReduceMean", powers, axes=[-1]))
    assert "no Softmax" in reason(SOFTMAX, g.model([2, 8], [mean]))


def test_a_real_model_from_jax(tmp_path: Path) -> None:
    opened = open_model(zoo.model_path("magika"))
    made = opened.ir.clone()
    assert "1 Softmax" in rewrites.find(SOFTMAX).apply(made).what
    save_model(made, tmp_path / "made.onnx")
    assert not [n for n in onnx.load(tmp_path / "made.onnx").graph.node if n.op_type in ("Exp", "ReduceMax")]
    case = workloads.propose(opened.ir).cases[0]
    for seed in range(2):
        feeds = {k: v for k, v in make_feeds(opened.ir, case, seed=seed).items() if isinstance(v, np.ndarray)}
        pairs = zip(outputs(tmp_path / "made.onnx", feeds), outputs(opened.path, feeds), strict=True)
        for ours, theirs in pairs:
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_a_sum_that_is_kept_above_a_number_is_another_function() -> None:
    g = Graph()
    e = g.op("Exp", "x")
    total = g.op("Max", g.op("ReduceSum", e, g.weight(np.array([-1], np.int64))), g.number(1.0))
    model = g.model([2, 50], [g.op("Div", e, total)])
    assert reason(SOFTMAX, model)


def clamped(g: Graph, exponents: tuple[float, float], total: float, *, opset: int) -> str:
    """Shares by Clip of the exponents behind the maximum, and of the sum from below."""
    low, high = exponents
    below = g.op("Sub", "x", g.op("ReduceMax", "x", axes=[1]))
    if opset < 11:
        e = g.op("Exp", g.op("Clip", below, min=float(low), max=float(high)))
        kept = g.op("Clip", g.op("ReduceSum", e, axes=[1]), min=float(total))
    else:
        e = g.op("Exp", g.op("Clip", below, g.number(low), g.number(high)))
        kept = g.op("Clip", g.op("ReduceSum", e, axes=[1]), g.number(total))
    return g.op("Div", e, kept)


@pytest.mark.parametrize("opset", [10, 12])
@pytest.mark.parametrize(
    ("exponents", "total", "kinds"),
    [
        ((-104, 0), 1e-6, {"Softmax": 1}),
        ((-np.inf, 50), 1, {"Softmax": 1}),
        # What the exponents are clipped to is felt: the shares of that.
        ((-80, 0), -np.inf, {"ReduceMax": 1, "Sub": 1, "Clip": 1, "Softmax": 1}),
    ],
)
def test_a_clip_that_no_value_feels_goes(
    exponents: tuple[float, float], total: float, kinds: dict[str, int], opset: int
) -> None:
    g = Graph()
    model = g.model([3, 8], [clamped(g, exponents, total, opset=opset)], opset=opset)
    found = check(SOFTMAX, model, [values(3, 8), values(3, 8, seed=1) * 40])
    assert found == kinds
    x = np.linspace(-150, 0, 24, dtype=np.float32).reshape(3, 8)  # exponents behind -104 too
    np.testing.assert_allclose(run(apply(SOFTMAX, model)[0], x)[0], run(model, x)[0], rtol=1e-5, atol=1e-38)


def test_a_clamp_that_is_felt_is_told() -> None:
    g = Graph()
    assert "constants" in reason(SOFTMAX, g.model([3, 8], [clamped(g, (-104, 0), 1.5, opset=12)], opset=12))
    for small in (1e-6, 1e-4):
        g = Graph()
        powers = g.op("Exp", g.op("Sub", "x", g.op("ReduceMax", "x", axes=[-1])))
        total = g.op("Add", g.op("ReduceSum", powers, g.weight(np.array([-1]))), g.number(small))
        model = g.model([3, 8], [g.op("Div", powers, total)])
        facts(reason(SOFTMAX, model), "constant", "changes the result")
    # Of a logarithm exponents are felt however low they are.
    g = Graph()
    below = g.op("Clip", g.op("Sub", "x", g.op("ReduceMax", "x", axes=[-1])), g.number(-104))
    total = g.op("ReduceSum", g.op("Exp", below), g.weight(np.array([-1])))
    model = g.model([3, 8], [g.op("Sub", below, g.op("Log", total))])
    assert check(SOFTMAX, model, [values(3, 8) * 200])["LogSoftmax"] == 1
    assert apply(SOFTMAX, model)[2]["Clip"] == 1


def test_a_clamp_of_what_has_no_maximum_taken_off_stays() -> None:
    for limit in ((1e-20, "Max"), (60.0, "Min")):
        g = Graph()
        powers = g.op("Exp", "x")
        total = g.op(limit[1], g.op("ReduceSum", powers, g.weight(np.array([-1]))), g.number(limit[0]))
        assert reason(SOFTMAX, g.model([3, 8], [g.op("Div", powers, total)]))
    g = Graph()
    kinds = check(
        SOFTMAX,
        g.model([3, 8], [softmax_bare(g, g.op("Clip", "x", g.number(-2), g.number(60)), -1)]),
        [values(3, 8), values(3, 8) * 30],
    )
    assert kinds == {"Clip": 1, "Softmax": 1}


@pytest.mark.parametrize("first", [True, False])
def test_the_logarithm_of_shares_stays_whatever_stands_beside_it(first: bool) -> None:
    """Beside it the same sum is told as a logarithm of its own, in either order of the nodes."""
    g = Graph()
    axis = g.weight(np.array([-1], np.int64))
    beside = g.op("ReduceLogSumExp", "x", axes=[-1]) if first else ""
    e = g.op("Exp", "x")
    shares = g.op("Log", g.op("Div", e, g.op("ReduceSum", e, axis)))
    beside = beside or g.op("ReduceLogSumExp", "x", axes=[-1])
    model = g.model([1, 4], [shares, beside])
    made, _, _ = apply(SOFTMAX, model)
    x = np.array([[0, -200, 1, 2]], np.float32)
    assert np.isneginf(run(model, x)[0][0, 1]) and np.isneginf(run(made, x)[0][0, 1])
