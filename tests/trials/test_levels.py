"""How far rounding moves a model, asked often enough where few numbers are all that comes out."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser
import pytest

from ortune.experiment.baseline import Baseline
from ortune.records import OutputDifference, Plan
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine
from ortune.trials.input_options import InputOptions
from ortune.trials.rounding import STEP_OF_FEW_BITS
from ortune.trials.sides import SideText, resolve

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


def moved(folder: Path, n: int, seed: int) -> OutputDifference:
    """What a step of few bits makes of a model with that many outputs."""
    folder.mkdir()
    onnx.save(onnx.parser.parse_model(MODEL.format(n=n, each=64 // n)), folder / "m.onnx")
    side = resolve(SideText(text=str(folder / "m.onnx")), common=Plan(), scratch=folder)
    baseline = Baseline(
        side, InputOptions(seed=seed), folder, SessionLog(None, ""), lambda _: None, Machine()
    )
    baseline.settle(60.0)
    difference = baseline.check.levels.moved(STEP_OF_FEW_BITS)
    assert difference is not None
    return difference


@pytest.mark.parametrize("n", [1, 32])
def test_a_number_that_rounding_may_move_is_not_taken_for_one_that_it_never_moves(
    tmp_path: Path, n: int
) -> None:
    """A mean seldom passes from one step of its grid to the next: one move of the inputs tells nothing of it."""
    assert all(moved(tmp_path / str(seed), n, seed).relative_l2 > 0.0 for seed in range(3))
