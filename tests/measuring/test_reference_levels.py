"""How far rounding moves a model, asked often enough where few numbers are all that comes out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import ortune
from few_bit_models import products
from ortune import platform
from ortune.graph.dot_products import saturates
from ortune.measuring.input_options import InputOptions
from ortune.measuring.measuring import Measuring
from ortune.measuring.sides import SideText, resolve
from ortune.outputs.rounding import STEP_OF_FEW_BITS
from ortune.records import DEFAULT_WRONG, OutputDifference, Plan
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine

MODEL = """
<ir_version: 9, opset_import: ["" : 17]>
agraph (float[1, 64] x) => (float[1, {n}] y)
  <float scale = {{0.003}}, uint8 zero = {{128}}, int64[2] shape = {{{n}, {each}}}, int64[2] out = {{1, {n}}}>
{{
  rows = Reshape(x, shape)
  mean = ReduceMean <axes = [1], keepdims = 0> (rows)
  whole = Reshape(mean, out)
  quantized = QuantizeLinear(whole, scale, zero)
  y = Cast <to = 1> (quantized)
}}
"""


def measured(folder: Path, seed: int = 0) -> Measuring:
    """The model of a folder, with inputs."""
    side = resolve(SideText(text=str(folder / "m.onnx")), common=Plan(), scratch=folder)
    baseline = Measuring(
        side, InputOptions(seed=seed), folder, SessionLog(None, ""), lambda _: None, Machine()
    )
    baseline.find_inputs(60.0)
    return baseline


def moved(folder: Path, n: int, seed: int) -> OutputDifference:
    """What a step of few bits makes of a model with that many outputs."""
    folder.mkdir()
    onnx.save(onnx.parser.parse_model(MODEL.format(n=n, each=64 // n)), folder / "m.onnx")
    difference = measured(folder, seed).check.levels.rounding_change(STEP_OF_FEW_BITS)
    assert difference is not None
    return difference


@pytest.mark.parametrize("n", [1, 32])
def test_a_number_that_rounding_may_move_is_not_taken_for_one_that_it_never_moves(
    tmp_path: Path, n: int
) -> None:
    """A mean seldom passes from one step of its grid to the next: one move of the inputs tells nothing of it."""
    assert all(moved(tmp_path / str(seed), n, seed).relative_l2 > 0.0 for seed in range(3))


SATURATING = """
<ir_version: 9, opset_import: ["" : 17]>
agraph (float[8, 64] x) => (float[8, 32] y)
  <float scale = {1.0}, uint8 zero = {0}, float weight_scale = {0.01}, int8 weight_zero = {0}, float y_scale = {1.0}>
{
  xq = QuantizeLinear(x, scale, zero)
  xd = DequantizeLinear(xq, scale, zero)
  wd = DequantizeLinear(w, weight_scale, weight_zero)
  product = MatMul(xd, wd)
  yq = QuantizeLinear(product, y_scale, zero)
  y = DequantizeLinear(yq, y_scale, zero)
}
"""


def test_where_products_saturate_the_level_stays_and_they_are_made_exact(tmp_path: Path) -> None:
    if not saturates(platform.host()):
        pytest.skip("8-bit products do not saturate on this CPU")
    model = onnx.parser.parse_model(SATURATING)
    draw = np.random.default_rng(0)
    weights = draw.integers(100, 128, (64, 32)).astype(np.int8)
    weights[32:] *= -1  # so that sums fit the grid, and pairs do not fit 16 bits
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    onnx.save(model, tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", draw.integers(200, 256, (8, 64)).astype(np.float32))
    answer = ortune.look(tmp_path / "m.onnx", inputs=tmp_path / "x.npy", store=tmp_path)
    (alert,) = (alert for alert in answer.alerts if alert.code == DEFAULT_WRONG)
    assert alert.fix.startswith("use --set x64_quant_precision=1, whose outputs match the ")
    exact = ortune.compare(
        tmp_path / "m.onnx", set=["level=disable"], b_set=["level=all", "quant_precision=1"], inputs=tmp_path / "x.npy",
        budget="10s", store=tmp_path,
    )  # fmt: skip
    assert exact.result.outputs.ok


@pytest.mark.parametrize("level", [0, 1, 4])
def test_what_the_file_rounds_to_int8_is_measured_on_a_copy(level: int, tmp_path: Path) -> None:
    check = measured(products(tmp_path / "m.onnx", level=level).parent).check.levels.check(None)
    assert check is not None and check.outputs.ok and not check.outputs.cause
    if level < 4:
        assert check.rounded is None
    else:
        assert check.rounded is not None and check.rounded.cause == "int8-activations"
        assert 1e-3 < check.rounded.relative_l2 < 1e-2
        assert check.rounded.without_cause_by == ("--rewrite accuracy-level:level=1",)
    assert not list(tmp_path.rglob("*/float32/**/m.onnx"))
