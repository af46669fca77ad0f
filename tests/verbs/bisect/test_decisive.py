"""``ortune bisect`` names where values break, not where they first tremble, and which side is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

import ortune
from facts import facts
from graphs import QuantizedGraph
from ortune.answer import Answer
from ortune.show.document import Pairs
from ortune.verbs.bisect import words as bisect_words
from ortune.verbs.bisect.result import BisectResult
from quantized import product
from simulated_machine import Lab, measuring_on


@pytest.fixture(autouse=True, scope="module")
def asked_once() -> Iterator[None]:
    """What a model answers is real, and asked for once by all tests."""
    with measuring_on(Lab(0)):
        yield


@pytest.fixture(autouse=True)
def _own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))


def bisected(a: Path, b: Path | None = None, **more: object) -> Answer[BisectResult]:
    return ortune.bisect(a, b, tolerance="1e-6", **more)


def layers(path: Path, quantized: bool, sizes: tuple[float, ...]) -> Path:
    """Products with weights of these sizes; the bias is as large as ever, so small weights leave it no int32."""
    g, x, scale = QuantizedGraph(11), "x", 0.03
    for i, size in enumerate(sizes):
        weight = (g.draw.normal(size=(24, 24)) * size).astype(np.float32)
        bias = np.linspace(-2, 2, 24)
        if quantized:
            x = g.pair(x, scale)
            dequantized, step = g.int8(weight)
            stored = g.int32(bias, scale * step)
        else:
            dequantized, stored = g.stored(weight), g.stored(bias.astype(np.float32))
        x = g.add("Gemm", x, dequantized, stored, name=f"fc{i}")
    g.add("Identity", x, out="y", name="end")
    return g.save(path, [8, 24], [8, 24])


@pytest.mark.parametrize(("sizes", "broken"), [((0.2, 1e-9), "fc1"), ((0.2, 0.2, 1e-8), "fc2")])
def test_a_bias_that_saturates_is_named_and_not_the_rounding_before_it(
    sizes: tuple[float, ...], broken: str, tmp_path: Path
) -> None:
    a, b = (layers(tmp_path / f"{q}.onnx", q, sizes) for q in (False, True))
    answer = bisected(a, b)
    found = answer.result
    place = found.partings[0]
    assert place.at is not None and place.at.name == broken
    (weight,) = place.weights
    assert (weight.side, weight.kind, weight.onnx_type) == ("B", "saturated", "int32")
    assert found.first is not None and found.first.at is not None and found.first.at.name == "fc0"
    assert broken in found.headline
    text = " ".join(answer.summary().split())
    facts(text, "first difference")
    facts(text, "saturated", "int32")


def test_what_the_file_has_lost_is_said_first_though_levels_were_not_compared(tmp_path: Path) -> None:
    model = layers(tmp_path / "m.onnx", True, (0.2, 1e-9))
    answer = ortune.look(model, budget=0, store=tmp_path / "store")  # no time but for the evaluation
    codes = [alert.code for alert in answer.alerts]
    assert codes == (["QNT012"] if answer.exact.right is False else []) + codes[1:]
    assert "graph optimisation were not compared" not in answer.summary() or not codes


def separable(path: Path, quantized: bool) -> Path:
    """A depthwise convolution whose channels differ a thousandfold, with one scale for all, and what evens them out."""
    g = QuantizedGraph(12)
    sizes = np.logspace(-3, 0, 8).astype(np.float32)
    weight = (g.draw.normal(size=(8, 1, 3, 3)) * sizes[:, None, None, None]).astype(np.float32)
    x = g.pair("x", 0.03) if quantized else "x"
    stored = g.int8(weight)[0] if quantized else g.stored(weight)
    x = g.add("Conv", x, stored, name="depthwise", group=8, pads=[1, 1, 1, 1])
    x = g.add("Mul", x, g.stored((1 / sizes)[:, None, None]), name="rescale")
    g.add("ReduceMean", x, out="y", name="mean", axes=[2, 3], keepdims=0)
    return g.save(path, [1, 8, 12, 12], [1, 8])


def test_one_scale_for_channels_of_unlike_size_is_named_where_it_is_applied(tmp_path: Path) -> None:
    a, b = (separable(tmp_path / f"{q}.onnx", q) for q in (False, True))
    place = bisected(a, b).result.partings[0]
    assert place.at is not None and place.at.name == "depthwise"
    (weight,) = place.weights
    assert (weight.side, weight.kind, weight.size) == ("B", "too-coarse", 8)


@pytest.mark.parametrize(
    ("default_first", "wrong", "signed"), [(True, "A", False), (False, "B", False), (True, "A", True)]
)
def test_the_side_that_the_optimiser_made_wrong_is_named(
    default_first: bool, wrong: str, signed: bool, tmp_path: Path
) -> None:
    """Of int8 values ONNX Runtime makes uint8, which are the same with another integer for zero."""
    side = {"b_set" if default_first else "a_set": {"level": "basic"}}
    answer = ortune.bisect(product(tmp_path / "m.onnx", 0.001, signed=signed), **side)
    found = answer.result
    assert (answer.verdict, found.wrong, found.judged_by) == ("found", wrong, "float64")
    assert answer.status == "default-wrong"
    facts(found.headline, f"{wrong} (default level)", "wrong from fc (")
    (row,) = (block for block in bisect_words.document(answer).blocks if isinstance(block, Pairs))
    told = dict(row.rows)["outputs"]
    assert told.startswith("differ") and "--tolerance" not in told, "what is wrong is nothing to accept"


def test_a_quantized_model_that_is_steps_apart_has_no_finding(tmp_path: Path) -> None:
    g = QuantizedGraph(13)
    x = g.pair("x", 0.05)
    x = g.pair(g.add("Add", x, g.pair(x, 0.03), name="sum"), 0.06, 125)
    g.add("AveragePool", x, out="p", name="pool", kernel_shape=[2, 2], strides=[2, 2])
    g.add("Relu", g.pair("p", 0.06, 125), out="y", name="end")
    path = g.save(tmp_path / "m.onnx", [1, 4, 16, 16], [1, 4, 8, 8])
    answer = ortune.bisect(path, b_set={"level": "disable"})
    found = answer.result
    assert not found.partings and found.stepped is not None
    assert found.stepped.steps.most == 1
    assert found.stepped.node.name in ("sum", "pool")
    assert found.headline.startswith("no finding: at most 1 step of 0.06 in ")


def chosen(path: Path, threshold: float) -> Path:
    """Rows that are beyond a threshold, and what is made of them."""
    g = QuantizedGraph(14)
    s = g.add("Sigmoid", "x", name="scores")
    m = g.add("Greater", s, g.stored(np.float32(threshold)), name="above")
    kept = g.add("Compress", s, g.add("Reshape", m, g.stored(np.array([-1], np.int64))), name="kept")
    g.add("Exp", kept, out="y", name="end")
    return g.save(path, [64], ["n"])  # type: ignore[list-item]


def test_values_whose_lengths_depend_on_values_are_told_as_other_shapes(tmp_path: Path) -> None:
    a, b = (chosen(tmp_path / f"{t}.onnx", t) for t in (0.5, 0.7))
    found = ortune.bisect(a, b).result
    assert found.partings[0].at is not None and found.partings[0].at.name == "above"
    shapes = {pair.node: (pair.shape, pair.shape_b) for pair in found.values}
    assert shapes["kept"][1] is not None and shapes["kept"][0] != shapes["kept"][1]


def boxes(path: Path, threshold: float | None) -> Path:
    """NonMaxSuppression in the middle, with a threshold or without."""
    g = QuantizedGraph(15)
    corners = g.add("Concat", "x", g.add("Add", "x", g.stored(np.float32(1.0))), axis=2)
    scores = g.stored(g.draw.uniform(size=(1, 2, 40)).astype(np.float32))
    more = [] if threshold is None else [g.stored(np.array([threshold], np.float32))]
    limits = g.stored(np.array([40], np.int64)), g.stored(np.array([0.5], np.float32))
    rows = g.add("NonMaxSuppression", corners, scores, *limits, *more, name="nms")
    g.add("Cast", rows, out="y", name="end", to=TensorProto.FLOAT)
    return g.save(path, [1, 40, 2], ["n", 3])  # type: ignore[list-item]


def test_nodes_with_and_without_an_optional_input_are_held_against_each_other(tmp_path: Path) -> None:
    a, b = boxes(tmp_path / "a.onnx", None), boxes(tmp_path / "b.onnx", 0.9)
    found = ortune.bisect(a, b).result
    assert found.partings[0].at is not None and found.partings[0].at.name == "nms"
    assert "different shapes" in found.headline


def named_alike(path: Path, *, limited: bool) -> Path:
    """A value that is called the same and is another thing: a sine, or the input cut off."""
    g = QuantizedGraph(16)
    if limited:
        limits = g.stored(np.float32(0.4)), g.stored(np.float32(0.5))
        g.add("Clip", "x", *limits, out="t1", name="limit")
    else:
        g.add("Sin", "x", out="t1", name="sine")
    g.add("Mul", g.add("Exp", "t1", out="t2", name="exp"), "x", out="y", name="times")
    return g.save(path, [6, 20], [6, 20])


def test_counted_names_alone_pair_nothing(tmp_path: Path) -> None:
    a, b = (named_alike(tmp_path / f"{limited}.onnx", limited=limited) for limited in (False, True))
    found = bisected(a, b).result
    assert "t1" not in {pair.a for pair in found.values}
    assert {node.name for node in found.partings[0].a} >= {"sine"}


@pytest.mark.parametrize("sides", [{"b_set": {"intra": "1"}}, {"b_set": {"level": "extended"}}])
def test_sides_that_are_wrong_alike_are_told_first(sides: dict[str, dict[str, str]], tmp_path: Path) -> None:
    answer = ortune.bisect(product(tmp_path / "m.onnx", 0.001), **sides)
    assert (answer.result.outputs.ok, answer.result.wrong, answer.status) == (True, "both", "default-wrong")
    # What is the same of both is said once.
    named = {alert.what.partition(": ")[0] for alert in answer.alerts}
    assert named in ({"A and B"}, {"A", "B"})
    assert all("fc" in alert.what + alert.evidence for alert in answer.alerts)
    facts(answer.result.headline, "A and B", "both wrong")
    assert "nothing to bisect" not in answer.summary()


def test_sides_that_are_right_alike_have_nothing_to_find(tmp_path: Path) -> None:
    answer = ortune.bisect(product(tmp_path / "m.onnx", None), b_set={"intra": "1"})
    assert (answer.verdict, answer.result.wrong, answer.status, answer.alerts) == ("same", "", "ok", ())


def calibrated(path: Path, ranges: tuple[float, ...] | None, kind: str = "uint8") -> Path:
    """Products with activations that were calibrated for values up to these; None for the float model."""
    g, x = QuantizedGraph(5), "x"
    for i in range(2):
        weight = (g.draw.normal(size=(16, 16)) / 4).astype(np.float32)
        if ranges:
            x = g.pair(x, ranges[i] / 127)
            weight_name, _ = g.int8(weight)
        else:
            weight_name = g.stored(weight)
        x = g.add("MatMul", x, weight_name, name=f"mm{i}")
    g.add("Identity", x, out="y", name="end")
    return g.save(path, [8, 16], [8, 16])


@pytest.mark.parametrize(
    ("ranges", "at"), [((0.5, 8.0), "mm0"), ((4.0, 0.4), "mm1"), ((4.0, 8.0), "")], ids=str
)
def test_activations_outside_of_the_calibrated_range_are_the_cause(
    ranges: tuple[float, ...], at: str, tmp_path: Path
) -> None:
    a, b = calibrated(tmp_path / "a.onnx", None), calibrated(tmp_path / "b.onnx", ranges)
    answer = bisected(a, b)
    place = answer.result.partings[0]
    if not at:
        assert not any(place.clipped for place in answer.result.partings)
        return
    (found,) = place.clipped
    assert place.at is not None and place.at.name == at
    assert (found.side, found.high) == ("B", pytest.approx(ranges[int(at[-1])], rel=0.02))
    assert found.share > 0.1 and not place.weights
    facts(" ".join(answer.summary().split()), "outside the calibrated range", "--inputs")
