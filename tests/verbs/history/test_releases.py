"""A model over releases of ONNX Runtime."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import onnx
import pytest
from onnx import parser

import boards
import made_runtimes
import ortune
from facts import facts
from ortune import assigned_host
from ortune.errors import UsageError
from ortune.measuring.sides import SideText, resolve
from ortune.records import DEFAULT_WRONG, Plan
from ortune.runtimes import made
from ortune.search.controls import Judgement
from ortune.show import terminal
from ortune.verbs.history import words as history_words
from ortune.verbs.history.row import row
from ortune.verbs.history.run import Options, _named, exit_code
from simulated_machine import Lab, measuring_on
from wrong_models import gemm

pytestmark = pytest.mark.xdist_group("measuring")
TEXT = """
    <ir_version: 8, opset_import: ["": 17]>
    three (float[64, 64] x) => (float[64, 64] y) { a = MatMul(x, x) b = Relu(a) y = MatMul(b, x) }
"""


@pytest.mark.long  # installs both
def test_two_releases_in_the_same_blocks(tmp_path: Path) -> None:
    for release in ("1.22.1", "1.31.1"):
        made_runtimes.require(f"onnxruntime=={release}")
    model = tmp_path / "my model.onnx"
    onnx.save(parser.parse_model(TEXT), model)
    envelope = ortune.history(model, release=["1.22.1", "1.31.1"], budget="8s", store=tmp_path / "store")
    result = envelope.result
    assert [one.release for one in result.rows] == ["1.31.1", "1.22.1"]
    newest, oldest = result.rows
    assert newest.runtime.ort_version == "1.31.1"
    assert oldest.outputs.ok
    assert oldest.since_previous is None
    assert newest.since_previous == result.whole
    assert set(result.changed) <= {"1.31.1"}
    # Where it changed, the command that asks for the nodes is given.
    assert bool(result.why) == bool(result.changed)
    if result.why:
        line = ["ortune", "compare", str(model), "--a-runtime", "onnxruntime==1.22.1"]
        assert shlex.split(result.why) == [*line, "--b-runtime", "onnxruntime==1.31.1"]
    page = terminal.render(history_words.document(envelope))
    assert page is not None
    told = ortune.show("newest", store=tmp_path / "store").result
    assert told.sessions[0].verb == "history"
    among_others = row(envelope)
    assert [figure.name for figure in among_others.figures][-2:] == ["load change", "memory change"]
    assert among_others.remarks[0] == "1.31.1 against 1.22.1" and not among_others.alarm


@pytest.mark.long  # installs both
def test_a_newest_release_that_is_wrong_is_not_the_reference(tmp_path: Path) -> None:
    for release in ("1.22.1", "1.31.1"):
        made_runtimes.require(f"onnxruntime=={release}")
    model = gemm(tmp_path / "m.onnx")
    envelope = ortune.history(model, release=["1.22.1", "1.31.1"], budget="20s", store=tmp_path / "store")
    assert (envelope.status, envelope.alerts[0].code) == ("default-wrong", DEFAULT_WRONG)
    ran = [one for one in envelope.result.rows if one.figures is not None]
    assert ran and all(one.outputs is not None and not one.outputs.ok for one in ran)
    assert row(envelope).alarm


def test_each_release_replaces_one_that_is_named_for_another_machine() -> None:
    def named(runtime: str | None) -> str:
        return _named("1.27.0", Options(model="m.onnx", release=["1.27.0", "1.26.0"], runtime=runtime))

    assert named(None) == "onnxruntime==1.27.0"
    assert named("./board") == named("onnxruntime==1.31.1@./board") == "onnxruntime==1.27.0@./board"
    token = assigned_host.assigned.set(cast("Any", SimpleNamespace(python="ray:host")))
    try:
        assert named("onnxruntime==1.31.1") == "onnxruntime==1.27.0"
    finally:
        assigned_host.assigned.reset(token)


def test_one_release_has_no_history(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least two releases"):
        ortune.history(tmp_path / "m.onnx", release=["1.22.1"])
    with pytest.raises(UsageError, match="no runtime is called"):
        ortune.history(tmp_path / "m.onnx", release=["1.22.1", "latest"])


def test_wrong_outputs_are_said_where_no_time_is_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = gemm(tmp_path / "m.onnx")
    runtime = resolve(SideText(text=str(model)), common=Plan(), scratch=Path("-")).runtime
    monkeypatch.setattr(made, "require_installed", lambda *_: SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(Judgement, "ok", property(lambda _: False))
    with measuring_on(Lab(3)):
        answer = ortune.history(model, release=["1.32.0", "1.31.0"], budget=60, store=tmp_path / "store")
    assert answer.verdict == "invalid" and exit_code(answer) == 3
    assert not answer.result.controls and answer.result.whole is None
    headline = history_words.headline(answer.result)
    assert headline.startswith("outputs are wrong in 1.32.0 and 1.31.0; ") and "A/A check" in headline
    assert row(answer).alarm


def test_a_script_is_refused_before_releases_are_installed(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    onnx.save(parser.parse_model(TEXT), model)
    with pytest.raises(UsageError, match="of this machine") as here:
        ortune.history(model, runtime=sys.executable, store=tmp_path)
    facts(here.value.where, sys.executable)
    facts(here.value.do, "omit")
    script = boards.board(tmp_path, "board")
    with pytest.raises(UsageError, match="this machine only"):
        ortune.history(model, runtime=script, objective="memory-growth", store=tmp_path)
