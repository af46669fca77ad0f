"""Peak memory over several sizes in turn: every verb that shows a peak feeds them, or says that one size was fed."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest

import ortune
from ortune.graph.model.open import open_model
from ortune.inputs import workload
from ortune.inputs.sizes_in_turn import sizes_in_turn
from ortune.records import PeakInTurn
from ortune.show import memory_words

ROOMY = "300s"
"""Holds a process beside a busy neighbour; the bench ends with its processes, the look with its steps."""
OPEN = "float[1,f,80] x) => (float[1,f,80] y"
FIXED = "float[1,9,80] x) => (float[1,9,80] y"


@pytest.fixture
def place(tmp_path: Path) -> dict[str, object]:
    return {"python": sys.executable, "store": tmp_path / "store"}


def model(folder: Path, sides: str = OPEN, nodes: str = "y = Relu (x)", weights: str = "") -> Path:
    text = f'<ir_version: 8, opset_import: ["" : 17]> m ({sides}) {weights} {{ {nodes} }}'
    onnx.save(onnx.parser.parse_model(text), folder / "m.onnx")
    return folder / "m.onnx"


def bench(path: Path, place: dict[str, object], **options: object) -> ortune.BenchResult:
    result = ortune.bench(path, **{"budget": ROOMY, "processes": 3, "runs": 3, **place, **options}).result
    assert result is not None
    return result


def test_bench_times_one_size_and_feeds_three_for_the_peak(tmp_path: Path, place: dict[str, object]) -> None:
    result = bench(model(tmp_path), place)
    peak = result.peak_in_turn
    assert peak is not None and peak.peak_bytes and not peak.one_size
    sizes = [int(name.partition("=")[2]) for name in peak.sizes]
    assert sizes[0] * 2 == sizes[1] and sizes[1] * 2 == sizes[2]
    assert peak.largest == peak.sizes[2] and peak.largest_bytes
    assert f"cold start with {peak.largest}" in memory_words.peak_remark(peak)
    assert [row.case for row in result.rows] == ["default"]
    assert {process.case for process in result.processes} == {"default"}


def test_sizes_of_the_users_are_not_changed(tmp_path: Path, place: dict[str, object]) -> None:
    path = model(tmp_path)
    assert bench(path, place, dim=["f=7"]).peak_in_turn == PeakInTurn(one_size="given")
    both = bench(path, place, dim=["f=7,14"]).peak_in_turn
    assert both is not None and both.sizes == ("f=7", "f=14") and both.peak_bytes
    assert bench(model(tmp_path, FIXED), place).peak_in_turn is None
    batch = model(tmp_path, "float[N,80] x) => (float[N,80] y")
    assert bench(batch, place).peak_in_turn == PeakInTurn(one_size="unguessed")


def test_a_budget_that_holds_no_process_says_so(tmp_path: Path, place: dict[str, object]) -> None:
    path = model(tmp_path)
    peak = bench(path, place, budget="0.1s").peak_in_turn
    assert peak == PeakInTurn(one_size="budget")
    look = ortune.look(path, budget="0s", **place).result
    assert look is not None and look.timing is not None
    assert look.timing.peak_in_turn == PeakInTurn(one_size="budget")


def test_a_model_that_runs_at_one_size_says_so(tmp_path: Path, place: dict[str, object]) -> None:
    nodes = "r = Reshape (x, shape) w = ConstantOfShape (sizes) y = MatMul (r, w)"
    weights = "<int64[2] shape = {1,320}, int64[2] sizes = {320,2}>"
    path = model(tmp_path, "float[1,f,80] x) => (float[1,2] y", nodes.replace(") ", ")\n"), weights)
    peak = bench(path, place).peak_in_turn
    assert peak == PeakInTurn(one_size="refused")


def test_a_look_and_a_diagnosis_show_both_peaks(tmp_path: Path, place: dict[str, object]) -> None:
    path = model(tmp_path)
    look = ortune.look(path, budget=ROOMY, **place)
    assert look.result is not None and look.result.timing is not None
    timing = look.result.timing
    assert timing.peak_in_turn is not None and timing.peak_in_turn.peak_bytes
    words = memory_words.peak_remark(timing.peak_in_turn)
    assert "3 sizes in turn: f=" in words
    found = ortune.diagnose(path, budget=ROOMY, **place)
    assert found.result is not None and found.result.peak_in_turn is not None
    assert len(found.result.peak_in_turn.sizes) == 3
    assert len(found.workload.cases) == 1


def test_a_diagnosis_of_memory_feeds_them_to_what_it_compares(
    tmp_path: Path, place: dict[str, object]
) -> None:
    found = ortune.diagnose(model(tmp_path), objective="memory", budget="1s", **place)
    assert found.result is not None and found.result.peak_in_turn is not None
    assert len(found.workload.cases) == 3 == len(found.result.peak_in_turn.sizes)


def test_all_sizes_grow_together_and_a_batch_of_one_with_them_if_asked(tmp_path: Path) -> None:
    path = model(tmp_path, "float[batch,seq,width] x) => (float[batch,seq,width] y")
    opened = open_model(path)
    work = workload.propose(opened.ir)
    plain, with_batch = sizes_in_turn(opened.ir, work), sizes_in_turn(opened.ir, work, batch=True)
    dims = [case.dims for case in plain[0].cases]
    assert [each["batch"] for each in dims] == [1, 1, 1]
    for name in ("seq", "width"):
        assert dims[0][name] * 4 == dims[1][name] * 2 == dims[2][name]
    assert [case.dims["batch"] for case in with_batch[0].cases] == [1, 1, 2]
    assert "batch=2" in with_batch[0].cases[2].name
    assert with_batch[-len(plain) :] == plain  # if the model runs with a batch of 1 only
