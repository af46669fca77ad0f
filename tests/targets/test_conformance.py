"""What every target must do, with a real model on each that is here; the others must say why they are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from target_trials import FEED, TURNS, WEIGHT, Trials, measured, model

from chromium import hardly_warm
from ortune import targets
from ortune.catalogue import knobs
from ortune.catalogue.knobs import Knob, strict_settings
from ortune.catalogue.providers import CPU, of_target
from ortune.inputs.value_files import read_index
from ortune.records import Failed, Measured, Outcome, Plan, Runtime, Value
from ortune.targets import Target
from ortune.targets.machine import Machine
from ortune.trace.read import read_trace
from targets_here import discovered, runtimes_here

ALL = [
    pytest.param(target, id=target.name, marks=pytest.mark.xdist_group(f"target {target.name}"))
    for target in targets.all_targets().values()
]

pytestmark = pytest.mark.parametrize("target", ALL)


@pytest.fixture
def runtime(target: Target) -> Runtime:
    """One that has the target."""
    found, report = discovered(target)
    if found is None:
        pytest.skip(report.why)
    return found


@pytest.fixture
def trials(tmp_path: Path, target: Target, runtime: Runtime) -> Trials:
    return Trials(tmp_path, target, runtime)


SEEN: dict[str, list[Outcome]] = {}


@pytest.fixture
def group(
    target: Target,
    runtime: Runtime,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> list[Outcome]:
    """Three trials alive together: one that is watched, one that fails, and one that is neither.

    They are run once for all that look at them: a browser takes seconds to start.
    """
    if target.name not in SEEN:
        hardly_warm(monkeypatch)
        trials = Trials(tmp_path_factory.mktemp(target.name), target, runtime)
        path = model(trials.folder / "m.onnx")
        bad = model(trials.folder / "bad.onnx", "NoSuchOperator", "nobody")
        SEEN[target.name] = trials.run(
            # OpenVINO computes in bfloat16 by default where the processor has it.
            trials.task("first", path, strict_settings(target.provider.name), watched=True),
            trials.task("bad", bad),
            trials.task("last", path),
        )
    return SEEN[target.name]


@pytest.fixture
def outcome(group: list[Outcome]) -> Measured:
    """The trial that is watched."""
    return measured(group[0])


def test_discovery_says_whether_and_why_not(target: Target) -> None:
    for runtime in runtimes_here():
        report = target.discover(runtime)
        assert report.name == target.provider.name
        assert report.usable or report.why
        assert report.in_build == (target.provider.name in runtime.providers)


def test_it_says_where_its_provider_comes_from(target: Target) -> None:
    assert target.provider.wheel or target.provider.otherwise
    assert targets.find(target.name) is target
    assert targets.target_of(Plan(providers=target.providers)) is target


def test_a_model_runs_with_right_outputs(target: Target, outcome: Measured) -> None:
    assert target.provider.name in outcome.done.providers
    assert outcome.done.n_runs == TURNS.runs * TURNS.rounds
    (found,) = read_index(Path(outcome.outputs_path) / "all", "outputs")
    np.testing.assert_allclose(np.load(found.files[0]), np.maximum(FEED @ WEIGHT, 0), rtol=1e-3, atol=1e-3)


def test_trials_take_turns_and_one_that_fails_costs_the_others_nothing(group: list[Outcome]) -> None:
    first, failed, last = group
    assert isinstance(failed, Failed)
    assert failed.reason in ("load-error", "unsupported")
    assert "NoSuchOperator" in failed.what
    for outcome in (first, last):
        assert measured(outcome).done.cases[0].turn_runs == (TURNS.runs,) * TURNS.rounds


def test_a_profile_is_a_trace(target: Target, outcome: Measured) -> None:
    if target.name == "web-webgl":
        pytest.skip("onnxruntime-web writes no profile with WebGL")
    trace = read_trace(Path(outcome.done.profile))
    assert trace.n_runs == 1 + outcome.done.cases[0].warmup_runs + outcome.done.n_runs + TURNS.rounds
    assert target.provider.profiled_as[0] in trace.provider.texts


def test_sensors_are_read(target: Target, outcome: Measured) -> None:
    before, after = (target.sensors(Machine()) for _ in range(2))
    assert (outcome.sensors.load1 is None) == (before.load1 is None)
    assert (outcome.sensors.elapsed_ns is None) == (before.at_ns is None or after.at_ns is None)


def value_of(knob: Knob) -> str:
    """One that every machine with the target has."""
    return (*knob.choices, *knob.tries, "1" if knob.minimum is None else str(max(knob.minimum, 0)))[0]


def settings_of(target: Target) -> list[dict[str, Value]]:
    """A value of each of its settings that can be made up, what needs others with these; and one of the session's."""
    own = [k for k in knobs.all_knobs().values() if k.provider == target.provider.name and k.kind != "text"]
    values = {knob.name: value_of(knob) for knob in own if not knob.needs}
    needing = [knobs.parse_settings([*k.needs, f"{k.name}={value_of(k)}"]) for k in own if k.needs]
    shared: list[dict[str, Value]] = [{"enable_mem_pattern": False}]
    texts = [f"{name}={value}" for name, value in values.items() if "{" not in value]
    if not target.of_runtime:  # a browser takes seconds to start: it is told at once all that one build reads
        builds = dict.fromkeys(k.builds[0] for k in own if k.builds) or [""]
        told = [
            [t for t in texts if build in (knobs.find(t.partition("=")[0]).builds or [build])]
            for build in builds
        ]
        chosen = [[f"web_build={build}"] if build else [] for build in builds]
        return [*(knobs.parse_settings([*a, *b]) for a, b in zip(told, chosen, strict=True)), *needing]
    alone = [knobs.parse_settings([text]) for text in texts]
    return [*alone, *needing, *(each for each in shared if "session_option" in target.channels)]


def test_settings_arrive(trials: Trials) -> None:
    path = model(trials.folder / "m.onnx")
    asked = settings_of(trials.target)
    tasks = [trials.task(str(number), path, settings) for number, settings in enumerate(asked)]
    for settings, task in zip(asked, tasks, strict=True):
        (outcome,) = trials.run(task)
        if of_target("openvino").name in trials.runtime.plugins and "openvino_model_priority" in settings:
            assert isinstance(outcome, Failed)  # the plug-in ignores the option, and a trial does not
            assert outcome.reason == "not-applied"
            continue
        found = {item.knob: item for item in measured(outcome).done.read_back}
        assert set(found) == set(settings)
        assert all(item.ok for item in found.values())


def test_what_a_target_cannot_be_told_is_a_failure(
    trials: Trials, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Deaf(Target):
        channels = ()

    monkeypatch.setattr(targets, "target_of", lambda plan: Deaf(target.provider))
    (outcome,) = trials.run(trials.task("a", model(trials.folder / "m.onnx"), {"enable_mem_pattern": False}))
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.phase) == ("unsupported", "preparing")


def test_a_silent_fallback_to_the_cpu_is_a_failure(target: Target, tmp_path: Path) -> None:
    lacking = [runtime for runtime in runtimes_here() if target.provider.name not in runtime.providers]
    if target.provider == CPU or not target.of_runtime or not lacking:
        pytest.skip("every runtime here has it")
    trials = Trials(tmp_path, target, lacking[0])
    (outcome,) = trials.run(trials.task("a", model(tmp_path / "m.onnx")))
    assert isinstance(outcome, Failed)
    assert outcome.reason == "not-applied"


def test_where_nodes_ran_is_told(target: Target, outcome: Measured) -> None:
    placement = {part.provider: part for part in outcome.done.placement}
    if target.provider == CPU or not target.of_runtime or not placement:
        pytest.skip("its nodes are in the profile alone")
    assert placement[target.provider.name].n_nodes > 0
    assert target.emulated(outcome) in ("", target.provider.name)
