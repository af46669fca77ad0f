"""What ``tune --targets auto`` races beside the CPU: what runs here already, never what is emulated."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import made_runtimes
from facts import facts
from ortune.catalogue.facts import facts_of
from ortune.catalogue.knobs import lower_precisions
from ortune.errors import UsageError
from ortune.measuring import output_check
from ortune.measuring.budget import Budget
from ortune.measuring.input_options import InputOptions
from ortune.measuring.measuring import Measuring
from ortune.measuring.run_pilot import run_pilot
from ortune.measuring.sides import ResolvedSide, SideText, resolve
from ortune.outputs.tolerance import Tolerance
from ortune.records import MadeRuntime, Measured, Plan, ProviderSpec, Runtime
from ortune.runtimes import made
from ortune.search.plan_edits import is_exact
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine
from ortune.verbs._shared.other_runtimes import usable_here
from ortune.verbs.tune.across import propose_on_targets
from ortune.verbs.tune.run import Options

MODEL = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'


@pytest.fixture
def side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ResolvedSide:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    onnx.save(parser.parse_model(MODEL), tmp_path / "m.onnx")
    return resolve(SideText(text=str(tmp_path / "m.onnx")), common=Plan(), scratch=tmp_path)


KILLS = """#!{python}
import os, signal, subprocess, sys
worker = subprocess.Popen(["{real}", *sys.argv[1:]], stdout=subprocess.PIPE)
for line in worker.stdout:
    os.write(1, line)
    if b'"loaded"' in line:
        worker.kill()
        worker.wait()
        os.kill(os.getpid(), signal.SIGKILL)
sys.exit(worker.wait())
"""
"""An interpreter whose worker is killed as soon as its session exists."""


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


def test_what_was_installed_is_raced_and_named_and_nothing_is_installed(side: ResolvedSide) -> None:
    said: list[str] = []
    assert usable_here(side, said.append).elsewhere == {}
    make("openvino")
    found = usable_here(side, said.append)
    assert [*found.elsewhere] == ["openvino"]
    (line,) = said
    facts(line, "openvino", "onnxruntime-openvino 1.24.1", "--targets cpu")
    # Who names a runtime means that one, and who names a provider wants it in every plan.
    assert usable_here(side, said.append, alone=True).elsewhere == {}
    on_openvino = msgspec.structs.replace(
        side.plan, providers=(ProviderSpec(name="OpenVINOExecutionProvider"),)
    )
    moved = ResolvedSide(label="", model=side.model, plan=on_openvino, runtime=side.runtime, runs=side.runs)
    assert usable_here(moved, said.append).elsewhere == {}


def test_what_is_emulated_is_not_raced(side: ResolvedSide) -> None:
    make("openvino", emulated=True)
    make("qnn", emulated=True)
    make("webgpu")
    assert [*usable_here(side, print).elsewhere] == ["webgpu"]


def test_with_all_each_target_is_compared_or_named_with_its_reason(side: ResolvedSide) -> None:
    for addition in made.addable():
        make(addition.name)
    make("qnn", emulated=True)
    said: list[str] = []
    compared = usable_here(side, said.append, install=True).elsewhere
    assert "openvino" in compared and "qnn" not in compared
    (emulated,) = [line for line in said if "qnn" in line]
    facts(emulated, "not compared", "emulated")
    for name in ("cuda", "tensorrt", "tensorrt-rtx", "webgpu", "qnn"):
        assert (name in compared) != any(
            line.startswith("not compared") and name in line.replace(",", "").split() for line in said
        )


@pytest.mark.parametrize("targets", ["cpu", "auto", "all", None])
def test_words_for_many_targets_name_none(targets: str | None) -> None:
    assert Options(model="m.onnx", targets=targets).others == ()


def test_a_target_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown target 'automatic'"):
        _ = Options(model="m.onnx", targets="automatic").others


def test_a_target_that_fails_in_its_first_run_is_named_and_the_race_goes_on(
    side: ResolvedSide, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))
    (refused,) = refused_of(side, tmp_path, side.runtime)
    facts(refused, "not-applied: OpenVINOExecutionProvider")


def test_a_target_whose_process_is_killed_in_its_first_run_is_named_and_the_race_goes_on(
    side: ResolvedSide, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))
    openvino = made_runtimes.require("openvino").runtime  # which looks in a cache of its own
    python = tmp_path / "python"
    python.write_text(KILLS.format(python=sys.executable, real=openvino.python))
    python.chmod(0o755)
    killed = msgspec.structs.replace(openvino, python=str(python))
    (refused,) = refused_of(side, tmp_path, killed)
    facts(refused, "crash: ", "SIGKILL")


PRODUCTS = """
    <ir_version: 8, opset_import: ["": 17]>
    products (float[64, 256] x) => (float[64, 256] y) { a = MatMul(x, w)  b = Relu(a)  y = MatMul(b, w) }
"""


@pytest.mark.parametrize(
    "asked", [InputOptions(), InputOptions(tolerance=Tolerance(text="0.05", number=0.05))]
)
def test_a_default_in_lower_precision_gives_way_to_the_exact_setting_unless_a_tolerance_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: InputOptions
) -> None:
    """On a processor with bfloat16, OpenVINO's default is 1 % away; on others it is exact, and stays as it is."""
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))
    openvino = made_runtimes.require("openvino").runtime
    model = parser.parse_model(PRODUCTS)
    weights = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32) / 16
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    onnx.save(model, tmp_path / "m.onnx")
    own = resolve(SideText(text=str(tmp_path / "m.onnx")), common=Plan(), scratch=tmp_path)
    side = replace(own, elsewhere={"openvino": openvino})
    on = Plan(providers=(ProviderSpec(name="OpenVINOExecutionProvider"),))
    facts = facts_of(side.model.ir)
    baseline = Measuring(side, asked, tmp_path, SessionLog(None, ""), lambda _: None, Machine())
    baseline.find_inputs(120.0)
    run_pilot(baseline, "latency", Budget(total_s=60.0))
    elsewhere = propose_on_targets(baseline, ["openvino"], facts, objective="latency", allow=())
    first = elsewhere.proposed[0].plan
    trial = baseline.executor.trial(baseline.arm("first", plan=first), runs=0, keep_outputs=True)
    assert isinstance(trial, Measured)
    assert output_check.difference(baseline, trial).ok
    if asked.tolerance:
        # Fewer bits are set, not left to what the processor has where a bundle is loaded.
        lower = lower_precisions("OpenVINOExecutionProvider", baseline.host.features)
        assert first.settings == (lower[0] if lower else {"openvino_precision": "f32"})
        assert (elsewhere.bases, elsewhere.untested) == ((first,), ())
    else:
        assert first.settings == {"openvino_precision": "f32"}
        assert is_exact(first)
        # On a processor without bfloat16 its default is exact too, and nothing was left out.
        for untested in elsewhere.untested:
            assert (untested.target, untested.reason, untested.plan) == ("openvino", "lower-precision", on)
            assert untested.settings == first.settings
            assert untested.difference is not None and untested.difference.accepting_tolerance is not None
            assert 0.001 < untested.difference.accepting_tolerance < 0.1


def refused_of(side: ResolvedSide, folder: Path, runtime: Runtime) -> tuple[str, ...]:
    """What is said of a target whose first run fails; the baseline goes on measuring."""
    on = msgspec.structs.replace(runtime, name="openvino")
    side = replace(side, elsewhere={"openvino": on})
    baseline = Measuring(side, InputOptions(), folder, SessionLog(None, ""), lambda _: None, Machine())
    baseline.find_inputs(120.0)
    facts = facts_of(side.model.ir)
    elsewhere = propose_on_targets(baseline, ["openvino"], facts, objective="latency", allow=())
    assert not elsewhere.proposed
    assert isinstance(baseline.executor.trial(baseline.arm("default", plan=Plan()), runs=2), Measured)
    return elsewhere.refused
