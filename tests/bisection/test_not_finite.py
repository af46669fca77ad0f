"""Stored values that are not finite, in every type that can hold them."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from onnx_text import assemble
from ortune.bisection.looked_at import Running
from ortune.bisection.not_finite import first_of
from ortune.bisection.seen import Seen
from ortune.bisection.weights import faults
from ortune.inputs.feed_files import write_feeds
from ortune.model.open import open_model
from ortune.records import FeedRef, Plan, Runtime

TYPES = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16]


def product(folder: Path, weight: np.ndarray) -> ir.Model:
    """``y = x * w``, read from a file."""
    held = numpy_helper.from_array(weight, "w")
    sides = [helper.make_tensor_value_info(name, held.data_type, [2, 4]) for name in "xy"]
    onnx.save(
        assemble([helper.make_node("Mul", ["x", "w"], ["y"])], sides[:1], sides[1:], [held]),
        folder / "m.onnx",
    )
    return open_model(folder / "m.onnx").ir


def told(model: ir.Model, folder: Path) -> tuple[str, int, int]:
    """The weight that is named behind a result of infinities, with its counts."""
    side = Running(
        graph=model, plan=Plan(), runtime=Runtime(python=""), feed=FeedRef(name="case", path=str(folder))
    )
    np.save(folder / "y.npy", np.full((2, 4), np.inf, np.float32))
    bad = Seen(
        onnx_type="float",
        shape=(2, 4),
        sample=folder / "y.npy",
        n_nan=0,
        n_inf=8,
        n_minus_inf=0,
        figures=(),
    )
    write_feeds(folder, {"x": np.ones((2, 4), np.float32)})
    found = first_of(side, {"y": bad}, "A")
    assert found is not None
    return found.weight, found.weight_n_nan, found.weight_n_inf


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: np.dtype(kind).name)
def test_weights_that_are_not_finite_are_counted_in_every_type(kind: type, tmp_path: Path) -> None:
    model = product(tmp_path, np.array([1.0, np.nan, np.inf, -np.inf], kind))
    assert told(model, tmp_path) == ("w", 1, 2)
    (fault,) = faults(model.graph, "A")
    assert (fault.kind, fault.n, fault.size) == ("not-finite", 3, 4)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: np.dtype(kind).name)
def test_the_largest_numbers_of_a_type_are_finite(kind: type, tmp_path: Path) -> None:
    largest = ml_dtypes.finfo(kind).max
    model = product(tmp_path, np.array([largest, -largest, 0.0, 1.0], kind))
    assert told(model, tmp_path) == ("", 0, 0)
    assert not list(faults(model.graph, "A"))
