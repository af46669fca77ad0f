"""``ortune tune --worth-adopting``: what another package must gain, in whole sessions on a simulated machine."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import onnx
import pytest

import made_runtimes
from facts import facts
from onnx_text import model_of
from ortune.verbs.tune.result import TuneResult
from simulated_machine import Lab, measuring_on
from within import program

pytestmark = pytest.mark.xdist_group("quantize")

OPENVINO = "OpenVINOExecutionProvider"


@pytest.mark.parametrize(("least", "ships"), [("10%", True), ("80%", False)])
def test_another_package_is_shipped_where_it_gains_enough(tmp_path: Path, least: str, ships: bool) -> None:
    made_runtimes.require("openvino")
    graph = "g (float[2,8] x) => (float[2,8] y) { a = Relu (x)  y = Neg (a) }"
    onnx.save(model_of(graph), tmp_path / "m.onnx")
    # Plans on OpenVINO take half as long as on the CPU provider.
    with measuring_on(Lab(1, faster_target="openvino")):
        code, out, said = program([
            "tune", str(tmp_path / "m.onnx"), "--targets", "auto", "--worth-adopting", least, "--budget", "60s",
            "--store", str(tmp_path / "store"), "--no-bundle", "--json",
        ])  # fmt: skip
    assert code == 0, said
    result = msgspec.convert(json.loads(out)["result"], TuneResult)
    assert (result.winner.provider_names == (OPENVINO,)) is ships
    other = result.other_package
    if ships:
        assert result.adoption is not None
        facts(result.headline, "OpenVINO")
    else:
        assert result.adoption is None and other is not None and other.plan.provider_names == (OPENVINO,)
        assert other.adoption is not None and OPENVINO not in result.winner.provider_names
