"""Where one side alone begins to be wrong: by its optimiser, or by values that are not finite."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ortune import targets
from ortune.catalogue.named import GRAPH_OPTIMIZATION_LEVEL as LEVEL
from ortune.engines.bisection.find import BisectedSide
from ortune.engines.bisection.levels import first_decisive, first_not_finite
from ortune.errors import Interrupted
from ortune.records import Plan
from planted import convolutions
from quantized import product
from settled import settled


@pytest.mark.parametrize("bias_scale", [0.001, 0.0005])
def test_the_node_that_the_optimiser_makes_wrong_is_named(bias_scale: float, tmp_path: Path) -> None:
    held = settled(product(tmp_path / "m.onnx", bias_scale), tmp_path)
    node = first_decisive(held.side, held.refs[0], held.executor, tmp_path / "levels")
    assert node is not None
    assert (node.name, node.operator) == ("fc", "Gemm")


def test_a_level_that_computes_the_same_has_no_wrong_node(tmp_path: Path) -> None:
    held = settled(product(tmp_path / "m.onnx", None), tmp_path)
    assert first_decisive(held.side, held.refs[0], held.executor, tmp_path / "levels") is None
    off = replace(held.side, plan=Plan(settings={LEVEL.name: "disable"}))
    assert first_decisive(off, held.refs[0], held.executor, tmp_path / "off") is None


def test_a_model_that_cannot_be_looked_into_costs_no_answer_and_a_stop_is_one(tmp_path: Path) -> None:
    held = settled(product(tmp_path / "m.onnx", 0.001), tmp_path)
    (tmp_path / "no-model.onnx").write_bytes(b"\xff")
    broken = replace(held.side, runs=tmp_path / "no-model.onnx")

    def stopped(text: str) -> None:
        raise Interrupted("stopped")

    for ask in (first_decisive, first_not_finite):
        assert ask(broken, held.refs[0], held.executor, tmp_path / f"{ask.__name__}-broken") is None
        with pytest.raises(Interrupted):
            ask(held.side, held.refs[0], held.executor, tmp_path / ask.__name__, line=stopped)


def test_a_side_runs_where_its_plan_does(tmp_path: Path) -> None:
    held = settled(product(tmp_path / "m.onnx", None), tmp_path)
    other = msgspec.structs.replace(held.side.runtime, python="another")
    side = replace(held.side, elsewhere={targets.target_of(held.side.plan).name: other})
    running = BisectedSide(name="A", resolved=side, model=side.model, feed=held.refs[0]).as_file()
    assert running.runtime == other


def test_the_weight_and_the_node_that_nan_come_from_are_named(tmp_path: Path) -> None:
    path = convolutions(tmp_path / "m.onnx")
    model = onnx.load(path)
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    values = numpy_helper.to_array(weights["b1"]).copy()
    values[2] = -np.inf
    weights["b1"].CopyFrom(numpy_helper.from_array(values, "b1"))
    onnx.save(model, path)
    held = settled(path, tmp_path)
    place = first_not_finite(held.side, held.refs[0], held.executor, tmp_path / "values")
    assert place is not None
    # Infinities meet with both signs in the next convolution: from there on they are NaN, of the same weight.
    assert place.node.name in ("norm1", "conv2")
    assert (place.weight, place.weight_type, place.weight_n_inf) == ("b1", "float", 1)
    assert place.reaches


def test_a_finite_model_has_no_such_node(tmp_path: Path) -> None:
    held = settled(convolutions(tmp_path / "m.onnx"), tmp_path)
    assert first_not_finite(held.side, held.refs[0], held.executor, tmp_path / "values") is None
