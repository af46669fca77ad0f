"""A batch normalisation behind a convolution that others read too: folded where they read its shape, else told."""

from __future__ import annotations

import numpy as np
import pytest
from applied import apply, check, reason, run, values
from onnx import TensorProto, helper
from rewrite_corpus import INTO

from facts import facts
from graphs import Graph


def convolved(g: Graph) -> tuple[str, str]:
    """A convolution, and its batch normalisation."""
    made = g.op("Conv", "x", g.weight(values(4, 3, 1, 1)))
    return made, normalised(g, made)


def normalised(g: Graph, value: str) -> str:
    numbers = [g.weight(np.abs(values(4, seed=seed)) + 0.5) for seed in range(4)]
    return g.op("BatchNormalization", value, *numbers)


def test_a_norm_of_the_batch_itself_stays_though_nobody_reads_its_statistics() -> None:
    """What ONNX Runtime normalises by before opset 14, where a norm has five outputs."""
    g = Graph()
    _, norm = convolved(g)
    g.nodes[-1].output.extend(["mean", "variance", "saved_mean", "saved_variance"])
    model = g.model([2, 3, 5, 5], [norm], opset=9)
    proto, _, kinds = apply(INTO, model)
    assert kinds == {"Conv": 1, "BatchNormalization": 1}
    x = values(2, 3, 5, 5)
    np.testing.assert_allclose(run(proto, x)[0], run(model, x)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("operator", ["Shape", "Size"])
def test_a_reader_of_the_shape_alone_is_served_by_the_folded_convolution(operator: str) -> None:
    g = Graph()
    raw, norm = convolved(g)
    count = g.op("Cast", g.op(operator, raw), to=TensorProto.FLOAT)
    model = g.model(["n", 3, 5, 5], [g.op("Relu", norm), count], opset=13)
    kinds = check(INTO, model, [values(2, 3, 5, 5), values(1, 3, 5, 5, seed=1)])
    assert kinds == {"Conv": 1, "Relu": 1, operator: 1, "Cast": 1}


def test_a_norm_that_is_an_output_keeps_its_name_beside_a_shape() -> None:
    g = Graph()
    raw, norm = convolved(g)
    model = g.model([2, 3, 5, 5], [norm], opset=13)
    model.graph.node.append(helper.make_node("Shape", [raw], ["sizes"], name="sizes"))
    model.graph.output.append(helper.make_tensor_value_info("sizes", TensorProto.INT64, [4]))
    made, result, kinds = apply(INTO, model)
    assert result.modified
    assert kinds == {"Conv": 1, "Shape": 1}
    assert [value.name for value in made.graph.output] == [norm, "sizes"]
    x = values(2, 3, 5, 5)
    for ours, theirs in zip(run(made, x), run(model, x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_who_else_reads_the_numbers_is_told() -> None:
    g = Graph()
    raw, norm = convolved(g)
    why = reason(INTO, g.model([2, 3, 5, 5], [norm, g.op("Relu", raw)], opset=13))
    assert f"'BatchNormalization_{norm}' was not folded" in why
    facts(why, f"'Conv_{raw}'", "Relu")


def test_two_norms_of_one_convolution_are_both_told() -> None:
    g = Graph()
    raw, norm = convolved(g)
    _, result, _ = apply(INTO, g.model([2, 3, 5, 5], [norm, normalised(g, raw)], opset=13))
    assert not result.modified
    assert len(result.reasons) == 2
    assert all("read by BatchNormalization" in why for why in result.reasons)


def test_a_convolution_that_is_an_output_is_told() -> None:
    g = Graph()
    raw, norm = convolved(g)
    why = reason(INTO, g.model([2, 3, 5, 5], [norm, raw], opset=13))
    facts(why, f"'Conv_{raw}'", f"graph output '{raw}'")


def test_it_is_told_beside_what_was_folded() -> None:
    g = Graph()
    raw, norm = convolved(g)
    last = g.op("Mul", g.op("Conv", g.op("Relu", norm), g.weight(values(2, 4, 1, 1))), g.number(2.0))
    _, result, kinds = apply(INTO, g.model([2, 3, 5, 5], [last, g.op("Relu", raw)], opset=13))
    assert result.modified
    assert kinds["Mul"] == 0
    (why,) = result.reasons
    assert norm in why
