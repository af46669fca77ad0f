"""Why one side is faster than another, within the time that is left."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import parser

from ortune.engines.profiling.why import explain_difference
from ortune.errors import MeasurementError
from ortune.measuring.budget import Budget
from ortune.measuring.input_options import InputOptions
from ortune.measuring.measuring import Measuring
from ortune.measuring.sides import SideText, resolve
from ortune.records import Plan, messages
from ortune.search.blocks import BASE
from ortune.search.phases import PROFILED_TRIALS
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine

TEXT = """
    <ir_version: 8, opset_import: ["": 17]>
    two (float[64, 64] x) => (float[64, 64] y) { a = MatMul(x, x) y = Relu(a) }
"""


def test_no_process_is_begun_in_less_time_than_the_one_before_took(tmp_path: Path) -> None:
    onnx.save(parser.parse_model(TEXT), tmp_path / "m.onnx")
    side = resolve(SideText(text=str(tmp_path / "m.onnx")), common=Plan(), scratch=tmp_path)
    baseline = Measuring(side, InputOptions(), tmp_path, SessionLog(None, ""), lambda text: None, Machine())
    baseline.find_inputs(60)
    said: list[messages.Message] = []
    baseline.line = said.append
    spent_ns = iter([0.0, 0.0, 1e18])  # read before each process
    budget = Budget(total_s=1e9, spent_ns=lambda: next(spent_ns))
    arm = baseline.arm(BASE)
    found = explain_difference(
        baseline, (side, side), (arm, arm), (1e5, 1e5), None, processes=4, budget=budget
    )  # fmt: skip
    assert len(said) == found.a_processes == found.b_processes == 2
    with pytest.raises(
        MeasurementError, match="profiling both takes 2 s"
    ):  # nor the first, in less than it takes
        explain_difference(
            baseline, (side, side), (arm, arm), (1e5, 1e5), None, trial_ns=2e9 / PROFILED_TRIALS,
            budget=Budget(total_s=1.0),
        )  # fmt: skip
    assert len(said) == 2
