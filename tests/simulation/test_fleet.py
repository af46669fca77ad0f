"""A fleet in one seed: whatever nodes and drivers do, each result is there once, and from a host of its kind."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from dense import dense
from ortune import monotonic
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope, ManyResult, ModelRow
from ortune.verbs._many.batch import batch
from ortune.verbs._many.fleet import Fleet
from ortune.verbs._many.run import run
from ortune.verbs._shared.hosts import HostOption
from ortune.verbs.bench.options import Options
from simulation.fleet import DriverKilled, SimulatedHosts, Weather, World

DAY_S = 86_400.0


def simulated(
    folder: Path, world: World, kills_s: Sequence[float], patch: pytest.MonkeyPatch, *, repeats: bool = True
) -> tuple[Envelope[ManyResult], float]:
    """Bench all models on all kinds, with a new driver after each kill; the answer, and the CPU time of it all."""
    models = folder / "models"
    models.mkdir()
    first = dense(models / "m0.onnx")
    world.models[str(first)] = 0
    for i in range(1, world.n_models):
        path = models / f"m{i}.onnx"
        path.hardlink_to(first)
        world.models[str(path)] = i
    patch.setattr(monotonic, "now_s", lambda: world.now_s)
    began_s = time.process_time()
    dying = [*kills_s, *[None] * 3]  # a model that was on three lost hosts is left to the next driver
    for number, dies_s in enumerate(dying):
        values = {
            "model": [str(models)], "store": str(folder / "store"), "budget_each": "60s",
            "resume": "newest" if number else None,
        }  # fmt: skip
        asked, _ = batch("bench", Options, values, {"budget_each"})
        assert asked is not None
        hosts = tuple(HostOption(name=kind, labels=f"kind={kind}") for kind in world.kinds)
        fleet = Fleet(SimulatedHosts(world, dies_s))
        world.aside = fleet.aside  # each driver finds out by itself
        try:
            answer = run(replace(asked, hosts=hosts), Watcher(), fleet)
        except DriverKilled:
            continue
        if answer.status == "interrupted" and repeats:
            continue
        return answer, time.process_time() - began_s
    raise AssertionError("no driver came to an end")


def require_whole(folder: Path, world: World, answer: Envelope[ManyResult]) -> None:
    """Each model has one row of each kind, which a host of that kind measured; the store has each once."""
    rows = answer.result.models
    assert answer.result.set_aside.keys() <= world.misbehaving
    assert len(rows) == world.n_models * len(world.kinds)
    assert [row.status for row in rows if row.status != "ok"] == []
    for row in rows:
        figure = next(figure for figure in row.figures if figure.name == "p50")
        assert figure.value == world.mark(row.path, row.host)
    with sqlite3.connect(folder / "store" / "ortune.sqlite") as base:
        stored = [
            msgspec.json.decode(body, type=ModelRow)
            for (body,) in base.execute("SELECT body FROM event WHERE kind = 'model-row'")
        ]
    kept = Counter((row.path, row.host) for row in stored if row.status == "ok")
    assert kept == Counter((row.path, row.host) for row in rows)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_result_is_lost_or_counted_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    weather = Weather(life_s=1200.0, slow_share=0.1, bad_share=0.1)
    world = World(seed, ("a", "b"), n_nodes=14, n_models=60, weather=weather)
    answer, _ = simulated(tmp_path, world, [400.0, 900.0], monkeypatch)
    require_whole(tmp_path, world, answer)
    assert world.n_lost > 10 and world.most_running <= 14


def test_a_host_that_is_slow_or_gives_no_valid_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weather = Weather(life_s=1e9, slow_share=0.0, bad_share=0.0)
    world = World(1, ("a",), n_nodes=6, n_models=40, weather=weather)
    slow, bad, *_ = world.nodes.values()
    slow.slow = bad.bad = True
    world.misbehaving = {slow.name, bad.name}
    answer, _ = simulated(tmp_path, world, [], monkeypatch)
    require_whole(tmp_path, world, answer)
    assert answer.result.set_aside == {slow.name: "slow", bad.name: "invalid"}
    assert {row.verdict for row in answer.result.models} == {""}


def test_a_kind_without_hosts_has_rows_that_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weather = Weather(life_s=1e9, slow_share=0.0, bad_share=0.0)
    world = World(1, ("a", "b"), n_nodes=4, n_models=6, weather=weather)
    for node in [node for node in world.nodes.values() if node.kind == "b"]:
        world.end(node, after_s=30.0)
    answer, _ = simulated(tmp_path, world, [], monkeypatch, repeats=False)
    by_kind = {kind: {row.status for row in answer.result.models if row.host == kind} for kind in "ab"}
    assert by_kind == {"a": {"ok"}, "b": {"interrupted"}}
    assert "--resume" in answer.result.resume


@pytest.mark.long  # 20,000 measurements with their journal
def test_500_nodes_and_10000_models_in_a_day_of_preemptions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weather = Weather(run_s=(1200.0, 3600.0))
    world = World(7, ("a", "b"), n_nodes=500, n_models=10_000, weather=weather)
    kills_s = [7200.0 * number for number in range(1, 11)]
    answer, _ = simulated(tmp_path, world, kills_s, monkeypatch)
    require_whole(tmp_path, world, answer)
    assert world.now_s > DAY_S and world.n_lost > 1500
    # The driver holds documents that hosts have just sent, and those that another host is to confirm.
    assert world.most_documents <= world.n_nodes
