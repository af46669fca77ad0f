"""What ``tune --targets auto`` races beside the CPU: what runs here already, never what is emulated."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import onnx
import pytest
from onnx import parser

import ortune
from ortune.errors import UsageError
from ortune.experiment.across import usable_here
from ortune.fleet import made
from ortune.records import MadeRuntime, Plan, ProviderSpec, Runtime
from ortune.trials.sides import Resolved, SideText, resolve
from ortune.verbs.tune import Options

MODEL = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'


@pytest.fixture
def side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Resolved:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    onnx.save(parser.parse_model(MODEL), tmp_path / "m.onnx")
    return resolve(SideText(text=str(tmp_path / "m.onnx")), common=Plan(), scratch=tmp_path)


def make(name: str, *, emulated: bool = False) -> None:
    """What ``runtime add`` leaves, with the interpreter of the tests."""
    place = made.folder() / f"{name}-py"
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python").symlink_to(sys.executable)
    about = MadeRuntime(
        name=name,
        requirements=(),
        emulated=emulated,
        runtime=Runtime(
            python=sys.executable, ort_version="1.24.1", package="onnxruntime-openvino", name=name
        ),
    )
    (place / made.ABOUT).write_bytes(msgspec.json.encode(about))


def test_what_was_installed_is_raced_and_named_and_nothing_is_installed(side: Resolved) -> None:
    said: list[str] = []
    assert usable_here(side, said.append).elsewhere == {}
    make("openvino")
    found = usable_here(side, said.append)
    assert [*found.elsewhere] == ["openvino"]
    assert said == [
        "openvino is also compared, with onnxruntime-openvino 1.24.1; to exclude it: --targets cpu"
    ]
    # Who names a runtime means that one, and who names a provider wants it in every plan.
    assert usable_here(side, said.append, alone=True).elsewhere == {}
    on_openvino = msgspec.structs.replace(
        side.plan, providers=(ProviderSpec(name="OpenVINOExecutionProvider"),)
    )
    moved = Resolved(label="", model=side.model, plan=on_openvino, runtime=side.runtime, runs=side.runs)
    assert usable_here(moved, said.append).elsewhere == {}


def test_what_is_emulated_or_has_no_bundle_is_not_raced(side: Resolved) -> None:
    make("openvino", emulated=True)
    make("qnn")
    assert usable_here(side, print).elsewhere == {}


@pytest.mark.parametrize("targets", ["cpu", "auto", "all", None])
def test_words_for_many_targets_name_none(targets: str | None) -> None:
    assert Options(model="m.onnx", targets=targets).others == ()


def test_a_target_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown target 'automatic'"):
        _ = Options(model="m.onnx", targets="automatic").others


def test_a_target_that_fails_in_its_first_run_is_named_and_the_race_goes_on(
    side: Resolved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))
    make("openvino")  # whose interpreter has no such provider
    result = ortune.tune(
        side.model.path, targets="auto", budget="25s", output=tmp_path, store=tmp_path / "store", bundle=False
    ).result
    told = [note for note in result.not_tried if "OpenVINO" in note or "openvino" in note]
    assert told and ("does not run this model" in told[0] or "no time is left" in told[0])
    assert result.winner.provider_names == ("CPUExecutionProvider",)
