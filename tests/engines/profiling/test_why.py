"""Why one side is faster than another, within the time that is left."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import parser

from ortune.engines.profiling.why import why
from ortune.errors import MeasurementError
from ortune.measuring.baseline import Baseline
from ortune.measuring.input_options import InputOptions
from ortune.measuring.sides import SideText, resolve
from ortune.records import Plan
from ortune.search.blocks import BASE
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine

TEXT = """
    <ir_version: 8, opset_import: ["": 17]>
    two (float[64, 64] x) => (float[64, 64] y) { a = MatMul(x, x) y = Relu(a) }
"""


def test_no_process_is_begun_in_less_time_than_the_one_before_took(tmp_path: Path) -> None:
    onnx.save(parser.parse_model(TEXT), tmp_path / "m.onnx")
    side = resolve(SideText(text=str(tmp_path / "m.onnx")), common=Plan(), scratch=tmp_path)
    baseline = Baseline(side, InputOptions(), tmp_path, SessionLog(None, ""), lambda text: None, Machine())
    baseline.settle(60)
    said: list[str] = []
    left_s = iter([1e9, 1e9, 0.0])  # asked before each process
    arm = baseline.arm(BASE)
    found = why(
        baseline, (side, side), (arm, arm), (1e5, 1e5), None, said.append, processes=4, left_s=lambda: next(left_s)
    )  # fmt: skip
    assert len(said) == found.a_processes == found.b_processes == 2
    with pytest.raises(
        MeasurementError, match="profiling both takes 2 s"
    ):  # nor the first, in less than it takes
        why(
            baseline, (side, side), (arm, arm), (1e5, 1e5), None, said.append, each_s=2.0, left_s=lambda: 1.0
        )  # fmt: skip
    assert len(said) == 2
