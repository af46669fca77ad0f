"""What a first look leaves out for its budget, and the commands that it suggests next."""

from __future__ import annotations

import math
import shlex
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer.main
from look_models import FLOAT, INFO, dense, ortune
from typer.core import TyperGroup

from ortune import targets
from ortune.cli import main
from ortune.graph.model.open import open_model
from ortune.measuring.executor import Timing
from ortune.measuring.opening import Experiment
from ortune.measuring.pace import Pace
from ortune.measuring.watcher import Watcher
from ortune.records import CaseTimes, Measured, ModelCost, NodeCost, Plan, TrialDone
from ortune.search.phases import LEAST_CHECKS_S
from ortune.show.finding_words import measurable
from ortune.verbs._shared.quantities import seconds
from ortune.verbs._shared.spelling import words
from ortune.verbs.look import words as look_words
from ortune.verbs.look.contents import estimated
from ortune.verbs.look.run import Options, _Look


def test_what_does_not_fit_into_the_budget_is_left_out_and_said(tmp_path: Path) -> None:
    model = str(dense(tmp_path / "m.onnx"))
    code, document, _ = ortune(tmp_path, "look", model, "--budget", "0s")
    result = document["result"]
    assert code == 0
    # Outputs were compared with the evaluation of so small a graph, which says more than levels do.
    assert [line.split(" (")[0] for line in result["left_out"]] == ["a warmed-up latency", "the profile"]
    assert not result["timing"]["warmed_up"]
    assert result["timing"]["n_runs"] == 0
    assert result["timing"]["latency_ns"] == result["timing"]["first_run_ns"] > 0
    # In the place of the profile: what the graph lets expect, labelled.
    assert [row["op_type"] for row in result["estimate"]] == list(result["operators"])
    assert sum(row["share_ratio"] for row in result["estimate"]) == pytest.approx(1.0)
    again = result["next_commands"][1]
    assert again.startswith(f"ortune {model} --budget ")
    code, document, _ = ortune(tmp_path, *shlex.split(again)[1:])
    assert (code, document["result"]["left_out"]) == (0, [])
    assert not document["result"]["estimate"] and document["result"]["profile"]
    assert document["result"]["next_commands"] == [f"ortune tune {model}"]


@pytest.mark.parametrize(("latency_s", "load_s"), [(0.5, 1.0), (19.0, 3.0)])
def test_the_budget_that_is_suggested_holds_what_was_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, latency_s: float, load_s: float
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    model = open_model(dense(tmp_path / "m.onnx"))

    class Trials:
        timing = Timing(runs=0, warmup_runs=0, warmup_ns=0, warmup_cap_ns=0)

        def trial(self, _: object) -> Measured:
            nonlocal now
            took = load_s + latency_s * (1 + self.timing.warmup_runs + self.timing.runs)
            now += took
            ns = int(latency_s * 1e9)
            case = CaseTimes(
                case="", weight=1.0, latency_ns=(ns,) * self.timing.runs, first_ns=ns, warmup_runs=1
            )
            done = TrialDone(load_ns=1, cases=(case,), cpu_ns=1, wall_ns=1, n_runs=self.timing.runs)
            return Measured(plan="", done=done, elapsed_ns=int(took * 1e9))

    def taken(budget_s: float) -> tuple[_Look, list[str]]:
        nonlocal now
        now, profiled = 0.0, list[str]()
        asked = Options(model="m.onnx", budget=budget_s)
        found = _Look(asked, Experiment("look", asked.terms, Watcher(), tmp_path), model, None)
        monkeypatch.setattr(found.look, "_profile", lambda *_: profiled.append("profile"))
        trials, side = Trials(), cast("Any", SimpleNamespace(plan=Plan()))
        baseline: Any = SimpleNamespace(arm=str, executor=trials, require_measured=lambda _, outcome: outcome)
        found.look._measure(baseline, side, trials.trial(None))
        return found, profiled

    short, profiled = taken(8.0 if latency_s > 1 else 1.0)
    assert len(short.look.left_out) == 2 and not profiled
    words = shlex.split(short._next(None, set())[1])
    enough, profiled = taken(seconds(words[-1], "--budget"))
    assert not enough.look.left_out and profiled
    assert enough._next(None, set()) == ["ortune tune m.onnx"]
    # Time for the profile, and for no timed process before it: the plain one beside the profiled one is timed.
    first_s, trial_s = load_s + latency_s, load_s + 6 * latency_s
    hurried, profiled = taken(first_s + 2.2 * trial_s + LEAST_CHECKS_S)
    assert profiled and not hurried.look.left_out and now == first_s


def node(op: str, flops: int = 0, moved: int = 0, **more: Any) -> NodeCost:
    return NodeCost(name=op, op_type=op, flops=flops, bytes_written=moved, **more)


def cost(*nodes: NodeCost) -> ModelCost:
    whole = {
        "flops": 0,
        "macs": 0,
        "bytes_read": 0,
        "bytes_written": 0,
        "parameters": 0,
        "parameter_bytes": 0,
    }
    return ModelCost(**whole, nodes=nodes)


def test_an_estimate_is_by_operations_or_by_bytes_whichever_take_longer() -> None:
    found = estimated(
        cost(node("Conv", flops=800), node("Transpose", moved=20), node("Relu", 10, moved=5, times=1))
    )
    assert [row.op_type for row in found] == ["Conv", "Transpose", "Relu"]
    assert found[0].share_ratio == pytest.approx(0.8)
    twice = estimated(
        cost(node("Conv", flops=100, times=3), node("Conv", flops=100), node("Relu", flops=400))
    )
    assert {row.op_type: (row.n_nodes, row.share_ratio) for row in twice} == {
        "Conv": (2, 0.5),
        "Relu": (1, 0.5),
    }


def test_nothing_is_estimated_of_nodes_whose_work_is_unknown() -> None:
    assert not estimated(cost(node("Conv", flops=8), node("Mine", known=False)))
    assert not estimated(cost())


def test_a_busy_machine_advises_no_budget_beyond_minutes(tmp_path: Path) -> None:
    """What was timed there took too long: the machine is the reason, and no budget helps."""
    taken = _Look(
        Options(model="m.onnx"),
        Experiment("look", Options(model="m.onnx").terms, Watcher(), tmp_path),
        open_model(dense(tmp_path / "m.onnx")),
        None,
    )
    taken.look.needed_s = 2_300.0
    assert taken._next(None, set())[1].endswith("--budget 47m")
    taken.look.busy = "CPU contention 90 %"
    assert taken._next(None, set())[1].endswith("--budget 120s")
    assert (
        look_words.no_time_for("5 checks", 2_300.0, taken.look.busy)
        == "5 checks (machine busy; rerun when it is idle)"
    )
    assert look_words.no_time_for("5 checks", 12.0, taken.look.busy) == "5 checks (about 12 s more)"


def test_checks_that_one_slow_check_kept_waiting_are_expected_to_take_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("ortune.monotonic.now_s", lambda: now[0])
    opened = Experiment("look", Options(model="m.onnx").terms, Watcher(), tmp_path)
    taken = _Look(Options(model="m.onnx"), opened, open_model(dense(tmp_path / "m.onnx")), None)

    def slow(pace: Pace) -> tuple[()]:
        for unit in range(90):
            if pace.begins(str(unit)):
                now[0] += 30.0
        return ()

    monkeypatch.setattr(taken, "_findings", slow)
    document = taken.envelope(None)
    (checks,) = [line for line in document.result.left_out if "check" in line]
    assert checks.endswith("(about 60 s more)")
    assert document.result.next_commands[1].endswith("--budget 110s")


@cache
def with_verb(verb: str) -> TyperGroup:
    main.register(verb)
    command = typer.main.get_command(main.app)
    assert isinstance(command, TyperGroup)
    return command


def parsed(line: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The verb that a suggested command line is read as, with every option; a complaint fails the test."""
    words = main._with_look(shlex.split(line)[1:])
    command = with_verb(words[0])
    name, verb, rest = command.resolve_command(command.make_context("ortune", list(words)), list(words))
    assert name and verb
    monkeypatch.chdir(folder)
    verb.make_context(name, rest)
    return name


@pytest.mark.parametrize("target", list(targets.all_targets()))
def test_every_command_that_is_suggested_can_be_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    model = dense(tmp_path / "m.onnx", inputs=[INFO("x", FLOAT, ["rows", 96]), INFO("w", FLOAT, [96, 96])])
    asked = Options(model=str(model), target=target, set=["intra=2"], dim=["rows=8"])
    opened = Experiment("look", asked.terms, Watcher(), tmp_path)
    taken = _Look(asked, opened, open_model(model), None)
    taken.look.needed_s = 30.0
    lines = taken._next(None, {"too-many-threads", "data-dependent-operators"})
    found = measurable(taken._findings(Pace(lambda: math.inf)), words(asked, without=("budget",)))
    lines += [f.fix for f in found if f.name == "initializers-in-inputs"]
    verbs = [parsed(line, tmp_path, monkeypatch) for line in lines]
    # Tune refuses a target that no bundle can be made for.
    assert verbs == [
        "tune" if targets.find(target).provider.ships else "profile",
        "look",
        "doctor",
        "compare",
    ]
    assert lines[-1].endswith("--b-rewrite initializers-out-of-inputs")
    assert all(f"--target {target}" in line for line in lines if target != "cpu" and line != "ortune doctor")
