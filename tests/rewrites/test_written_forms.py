"""What is written so that ONNX Runtime does it in fewer passes: RMS normalisations, and Softmax over inner axes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from applied import apply, check, fused_by_ort, reason, values
from fused_forms import RMS, Maker, rms_dynamo, rms_power
from onnx import TensorProto

from graphs import Graph

RMS_NORM, INNER = "rms-normalization", "softmax-over-inner-axis"


@pytest.mark.parametrize("form", RMS)
@pytest.mark.parametrize("opset", [13, 17])
def test_rms_in_every_form_is_fused_by_onnx_runtime(
    form: Callable[[Maker, str, int], str], opset: int, tmp_path: Path
) -> None:
    g = Graph()
    model = g.model(["n", 5, 8], [form(g, "x", 8)], opset=opset)
    if fused_by_ort(model, tmp_path)["SimplifiedLayerNormalization"]:
        assert "itself fuses" in reason(RMS_NORM, model)
        return
    check(RMS_NORM, model, [values(2, 5, 8), values(1, 5, 8, seed=1) * 0.01])
    assert fused_by_ort(apply(RMS_NORM, model)[0], tmp_path)["SimplifiedLayerNormalization"] == 1


def test_two_rms_normalisations_of_one_root() -> None:
    g = Graph()
    total = g.op("Add", g.op("ReduceMean", g.op("Mul", "x", "x"), axes=[-1]), g.number(1e-6))
    root = g.op("Sqrt", total)
    ys = [g.op("Mul", g.op("Div", "x", root), g.weight(values(8, seed=seed))) for seed in range(2)]
    model = g.model([2, 5, 8], ys)
    check(RMS_NORM, model, [values(2, 5, 8)])
    made, result, _ = apply(RMS_NORM, model)
    assert "2 RMS" in result.what
    assert not apply(RMS_NORM, made)[1].modified


def test_near_misses_of_an_rms_normalisation_are_told() -> None:
    g = Graph()
    assert "opset 11" in reason(RMS_NORM, g.model([2, 5, 8], [rms_dynamo(g, "x", 8)], opset=11))
    g = Graph(np.float64)
    assert "float32" in reason(
        RMS_NORM, g.model([2, 5, 8], [rms_dynamo(g, "x", 8)], dtype=TensorProto.DOUBLE)
    )
    g = Graph()
    plain = g.op("Add", g.op("ReduceMean", g.op("Mul", "x", "x"), axes=[1]), g.number(1e-6))
    y = g.op("Mul", g.op("Div", "x", g.op("Sqrt", plain)), g.weight(values(8)))
    assert "last axis" in reason(RMS_NORM, g.model([2, 5, 8], [y]))
    g = Graph()
    total = g.op("Add", g.op("ReduceMean", g.op("Mul", "x", "x"), axes=[-1]), g.number(1e-6))
    bare = g.op("Div", "x", g.op("Sqrt", total))
    assert "constant scale" in reason(RMS_NORM, g.model([2, 5, 8], [bare]))


def rms_inverse(m: Maker, x: str, width: int) -> str:
    """One over the root, and a square that is a product."""
    one = m.number(1)
    total = m.op("Add", m.op("ReduceMean", m.op("Mul", x, x), axes=[-1]), m.number(1e-6))
    return m.op("Mul", m.op("Mul", x, m.op("Div", one, m.op("Sqrt", total))), m.weight(values(width)))


class _Wider(Graph):
    """Makes one number of a form a constant of three axes."""

    def __init__(self, which: int) -> None:
        super().__init__()
        self._left = which

    def number(self, value: float) -> str:
        self._left -= 1
        return self.weight(np.full((1, 1, 1), float(value))) if self._left == -1 else super().number(value)


@pytest.mark.parametrize(
    ("form", "which"), [(rms_power, 0), (rms_power, 1), (rms_power, 2), (rms_dynamo, 1), (rms_inverse, 0)]
)
def test_a_number_that_adds_axes_is_no_part_of_an_rms_normalisation(
    form: Callable[[Maker, str, int], str], which: int
) -> None:
    g = _Wider(which)
    model = g.model([4, 8], [form(g, "x", 8)])
    assert [size.dim_value for size in model.graph.output[0].type.tensor_type.shape.dim] == [1, 4, 8]
    assert "no RMS" in reason(RMS_NORM, model)
    g = _Wider(which)
    kinds = apply(RMS_NORM, g.model([2, 4, 8], [form(g, "x", 8)]))[2]
    assert kinds["Pow"] == 1 and kinds["Reciprocal"] == 0


@pytest.mark.parametrize(("axis", "opset"), [(1, 13), (-3, 13), (1, 18)])
def test_a_softmax_over_channels_is_written_out(axis: int, opset: int) -> None:
    g = Graph()
    model = g.model(["n", 3, 40, 40], [g.op("Softmax", "x", axis=axis)], opset=opset)
    far = values(1, 3, 40, 40, seed=1) * 200
    far[0, :, 0, 0] = -np.inf
    far[0, 0, 0, 1] = -np.inf
    kinds = check(INNER, model, [values(2, 3, 40, 40), far, values(0, 3, 40, 40)])
    assert kinds == {"ReduceMax": 1, "Sub": 1, "Exp": 1, "ReduceSum": 1, "Div": 1}


def test_other_softmax_are_left_and_told() -> None:
    g = Graph()
    assert "the last axis" in reason(INNER, g.model([2, 3, 40, 40], [g.op("Softmax", "x", axis=3)]))
    g = Graph()
    assert "49 elements" in reason(INNER, g.model([2, 3, 7, 7], [g.op("Softmax", "x", axis=1)]))
    g = Graph()
    assert "opset 11" in reason(INNER, g.model([2, 3, 40, 40], [g.op("Softmax", "x", axis=1)], opset=11))
