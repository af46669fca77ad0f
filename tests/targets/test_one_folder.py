"""A provider is one file, and a place that runs trials one folder: all that must know of them finds them there."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from target_trials import TURNS, Trials, measured, model

from facts import facts
from ortune import targets
from ortune.catalogue import files, providers
from ortune.errors import UsageError
from ortune.records import Measured, Plan, ProviderSpec
from ortune.rules import Facts
from ortune.targets.inventory import report
from ortune.targets.machine import Machine
from ortune.targets.runner import run
from ortune.verbs.compare.run import Options
from ortune.verbs.tune import run as tune
from targets_here import runtimes_here

# Of a device that nobody has: what runs on it is a function of this process, which waits for its turn.
NEW = '''"""A device of tomorrow."""

from __future__ import annotations

from ortune.platform import SensorSnapshot
from ortune.records import CaseTimes, Failed, Measured, ProviderReport, TrialDone
from ortune.targets.target import Target


class Device:
    """Counts instead of running."""

    held_bytes = 0

    def __init__(self, task, settings):
        self.task, self.settings = task, settings
        self.live, self.turns, self.latencies = True, [], []

    def start(self):
        self.turns.append("start")

    def loaded(self):
        return True

    def warm(self):
        self.turns.append("warm")

    def batch(self, runs, unmeasured):
        self.turns.append(runs)
        self.latencies += [1000] * runs

    def finish(self):
        self.live = False

    def close(self):
        self.live = False

    def outcome(self, before, after):
        assert (before.load1, after.load1) == (1.0, 1.0)
        if self.settings:
            return Failed(plan=self.task.plan.id, reason="unsupported", what=self.settings[0].knob)
        runs = tuple(turn for turn in self.turns if isinstance(turn, int))
        case = CaseTimes(
            case="all", weight=1.0, latency_ns=tuple(self.latencies), first_ns=1000, turn_runs=runs
        )
        done = TrialDone(
            load_ns=1, cases=(case,), cpu_ns=1, wall_ns=sum(self.latencies), n_runs=len(self.latencies),
            providers=("TomorrowExecutionProvider",),
        )
        return Measured(plan=self.task.plan.id, done=done)


class Tomorrow(Target):
    """Runs on a device."""

    channels = ("session_config",)

    def discover(self, runtime, browser=None):
        return ProviderReport(name=self.provider.name, in_build=False, usable=True, why="always there")

    def runner(self, task, settings, machine, group):
        return Device(task, settings)

    def sensors(self, machine):
        return SensorSnapshot(load1=1.0)


KIND = Tomorrow
'''
PROVIDER = """# Whatever there will be.

[provider]
name = "TomorrowExecutionProvider"
target = "tomorrow"
place = "device"
otherwise = "it is made to order"
options = ["speed"]
queues = true
int32 = true
"""


@pytest.fixture
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[targets.Target]:
    """The target of a provider and of a place that stand beside the others."""
    (tmp_path / "device").mkdir()
    (tmp_path / "device" / "target.py").write_text(NEW, encoding="utf-8")
    (tmp_path / "tomorrow.toml").write_text(PROVIDER, encoding="utf-8")
    monkeypatch.setattr(targets, "__path__", [*targets.__path__, str(tmp_path)])
    monkeypatch.setattr(files, "FOLDERS", [*files.FOLDERS, tmp_path])
    forget()
    yield targets.find("tomorrow")
    for name in ("ortune.targets.device.target", "ortune.targets.device"):
        sys.modules.pop(name, None)
    monkeypatch.undo()
    forget()


def forget() -> None:
    importlib.invalidate_caches()
    files.clear_caches()
    providers.all_providers.cache_clear()
    targets.all_targets.cache_clear()
    targets._target.cache_clear()


def test_it_is_found_and_asked_for_by_name(new: targets.Target) -> None:
    assert next(iter(targets.all_targets())) == "cpu"
    plan = Options(a="m.onnx", target="tomorrow").common
    assert plan == Plan(providers=(ProviderSpec(name="TomorrowExecutionProvider"),))
    assert targets.target_of(plan) is new
    with pytest.raises(UsageError, match="unknown target 'yesterday'") as caught:
        _ = Options(a="m.onnx", target="yesterday").common
    assert "tomorrow" in caught.value.do


def test_what_is_true_of_it_is_known_to_who_asks(new: targets.Target) -> None:
    assert Facts(target="tomorrow").provider is new.provider
    assert providers.of_profile("TomorrowExecutionProvider") is new.provider
    assert "tomorrow" in providers.target_names(lambda p: p.int32)
    assert "TomorrowExecutionProvider" in providers.profile_names(lambda p: p.queues)
    assert not Plan(providers=new.providers).is_web


def test_doctor_tells_of_it(new: targets.Target) -> None:
    (seen,) = [each for each in report(runtimes_here()[0]).providers if each.name == new.provider.name]
    assert (seen.usable, seen.why) == (True, "always there")


def test_its_trials_take_turns_with_processes(new: targets.Target, tmp_path: Path) -> None:
    runtime = runtimes_here()[0]
    trials, cpu = Trials(tmp_path, new, runtime), Trials(tmp_path, targets.find("cpu"), runtime)
    path = model(tmp_path / "m.onnx")
    tasks = [
        trials.task("new", path),
        cpu.task("cpu", path),
        trials.task("set", path, {"allow_spinning": False}),
    ]
    found = run(tasks, Machine(), TURNS)
    assert found is not None
    for outcome, target in zip(found, (new, cpu.target), strict=False):
        assert target.provider.name in measured(outcome).done.providers
        assert measured(outcome).done.cases[0].turn_runs == (TURNS.runs,) * TURNS.rounds
    assert not isinstance(found[2], Measured)
    assert (found[2].reason, found[2].what) == ("unsupported", "allow_spinning")


def test_what_it_cannot_be_told_is_a_failure(new: targets.Target, tmp_path: Path) -> None:
    trials = Trials(tmp_path, new, runtimes_here()[0])
    (outcome,) = trials.run(trials.task("a", model(tmp_path / "m.onnx"), {"intra_op_num_threads": 1}))
    assert not isinstance(outcome, Measured)
    facts(outcome.what, "intra_op_num_threads", "does not apply", "tomorrow")


def test_a_bundle_is_made_for_what_says_that_it_ships(new: targets.Target) -> None:
    with pytest.raises(UsageError, match="bundles are not supported for tomorrow"):
        tune.run(tune.Options(model="m.onnx", target="tomorrow"))
    assert targets.find("cpu").provider.ships
