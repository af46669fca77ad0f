"""Which inputs a model may be calibrated on: numbers, and rows of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from facts import facts
from onnx_text import model_of, saved
from ortune.graph.model.open import open_model
from ortune.inputs.calibrating import fault, masks

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 8)).astype(np.float32)


def holding(value: float) -> np.ndarray:
    array = X.copy()
    array[1, 2:4] = value
    return array


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_inputs_that_are_no_numbers_are_named(value: float) -> None:
    assert fault({"x": X, "ids": np.arange(4), "names": ["a", "b"]}, ()) == ""
    facts(fault({"x": X, "y": holding(value)}, ()), "input 'y'", "2 NaN or infinite values")
    half = holding(value).astype(np.float16)
    assert fault({"x": half}, ())


def test_minus_infinity_in_a_mask_is_meant(tmp_path: Path) -> None:
    text = "g (float[4,8] x, float[4,8] attention_mask) => (float[4,8] y) { y = Add(x, attention_mask) }"
    hidden = masks(open_model(saved(tmp_path / "m.onnx", model_of(text))).ir)
    assert hidden == {"attention_mask"}
    assert fault({"x": X, "attention_mask": holding(-np.inf)}, hidden) == ""
    assert fault({"x": X, "attention_mask": holding(np.nan)}, hidden)
    assert fault({"x": holding(-np.inf), "attention_mask": X}, hidden)


def test_inputs_without_rows_tell_nothing() -> None:
    facts(fault({"x": X[:0]}, ()), "input 'x'", "no rows")
    # A list that may be left empty, and the past of a decoder at its first step.
    assert fault({"x": X, "roi": X[0, :0], "past": np.zeros((1, 2, 0, 8), np.float32)}, ()) == ""
