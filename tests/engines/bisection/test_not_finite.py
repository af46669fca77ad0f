"""Stored values that are not finite, in every type that can hold them."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from onnx_text import assemble, model_of, saved
from ortune.engines.bisection.levels import first_not_finite
from ortune.engines.bisection.not_finite import _given_behind, first_of
from ortune.engines.bisection.observing import ObservedGraph
from ortune.engines.bisection.value_statistics import ValueStatistics
from ortune.engines.bisection.weights import faults
from ortune.graph.model.open import open_model
from ortune.inputs.feed_files import write_feeds
from ortune.records import FeedRef, Plan, Runtime
from settled import settled

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
    side = ObservedGraph(
        graph=model, plan=Plan(), runtime=Runtime(python=""), feed=FeedRef(name="case", path=str(folder))
    )
    np.save(folder / "y.npy", np.full((2, 4), np.inf, np.float32))
    bad = ValueStatistics(
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


BODY = """
<ir_version: 8, opset_import: ["" : 17]>
looped (float[2,4] x, bool c) => (float[2,4] y) <float[4] outer = {1.0, 1.0, 1.0, 1.0}>
{
    y = If (c) <
        then_branch = then () => (float[2,4] t) {
            inner = Constant <value = float[4] {1.0, 1.0, 1.0, 1.0}> ()
            t = Mul (x, inner)
        },
        else_branch = otherwise () => (float[2,4] e) { e = Mul (x, outer) }
    >
}
"""


@pytest.mark.parametrize("name", ["inner", "outer"])
def test_a_weight_that_a_body_reads_is_named(name: str, tmp_path: Path) -> None:
    """No value inside an If or a Loop is looked at: its weights are those of the node."""
    model = onnx.parser.parse_model(BODY)
    bad = numpy_helper.from_array(np.array([1, np.nan, 1, np.nan], np.float32))
    if name == "outer":
        model.graph.initializer[0].raw_data = bad.raw_data
        model.graph.initializer[0].ClearField("float_data")
    else:
        branch = next(a.g for a in model.graph.node[0].attribute if a.name == "then_branch")
        branch.node[0].attribute[0].t.CopyFrom(bad)
    onnx.save(model, tmp_path / "m.onnx")
    graph = open_model(tmp_path / "m.onnx").ir
    weight = _given_behind(next(iter(graph.graph)), {}, {}, nan_alone=True)
    assert weight is not None and (weight.name, weight.n_nan) == (name, 2)


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


NO_BOXES = """g (float[1,4,4] boxes, float[1,2,4] scores) => (int64[k,3] kept, float[m] doubled)
<int64[1] most = {4}, float[1] overlap = {0.5}, float[1] least = {2.0}> {
    [nms] kept = NonMaxSuppression (boxes, scores, most, overlap, least)
    f = Cast <to = 1> (kept) [flat] flat = Flatten (f)
    [l] l = Log (flat) s = ReduceSum <keepdims = 0> (l, last) [d] doubled = Add (s, s)
}"""


def test_an_output_without_elements_holds_nothing_that_is_not_finite(tmp_path: Path) -> None:
    weights = {"last": np.array([1], np.int64)}
    held = settled(saved(tmp_path / "m.onnx", model_of(NO_BOXES, weights=weights)), tmp_path)
    assert first_not_finite(held.side, held.refs[0], held.executor, tmp_path / "values") is None
    # A value without elements counts all of its no elements as infinite.
    graph = open_model(tmp_path / "m.onnx").ir
    side = ObservedGraph(
        graph=graph, plan=Plan(), runtime=Runtime(python=""), feed=FeedRef(name="case", path=str(tmp_path))
    )
    write_feeds(tmp_path, {})
    np.save(tmp_path / "none.npy", np.zeros((0, 3), np.float32))
    empty = ValueStatistics(
        onnx_type="float", shape=(0, 3), sample=tmp_path / "none.npy", n_nan=0, n_inf=0, n_minus_inf=0,
        figures=(0.0,) * 5,
    )  # fmt: skip
    assert first_of(side, {"kept": empty, "flat": empty, "doubled": empty}, "B") is None
