"""The table of what trades for what, over blocks of a machine that has phases."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from ortune.records import Block, BlockTrial, CaseTimes, Measured, Plan, ProviderSpec, TrialDone
from ortune.search.blocks import BASE
from ortune.search.figures import describe
from ortune.search.halving import CURRENT, Entry, Halving
from ortune.search.state import Search
from ortune.search.tables import trade
from ortune.verbs._shared.shipped import rejected

ARENA = Plan(settings={"enable_cpu_mem_arena": False})
LESS_CPU = Plan(settings={"allow_spinning": False})
ON_GPU = Plan(providers=(ProviderSpec(name="CUDAExecutionProvider"),))
ON_OPENVINO = Plan(providers=(ProviderSpec(name="OpenVINOExecutionProvider"),))
OPENVINO_STREAMS = msgspec.structs.replace(ON_OPENVINO, settings={"openvino_streams": "1"})
ON_GPU_GRAPH = msgspec.structs.replace(ON_GPU, settings={"cuda_graph": "1"})


def trial(arm: str, ns: float, cpu: float = 2.0, peak: int = 10**8) -> BlockTrial:
    times = CaseTimes(case="x", weight=1.0, latency_ns=(int(ns),) * 10, first_ns=int(ns))
    done = TrialDone(
        load_ns=10**7,
        cases=(times,),
        cpu_ns=int(10 * cpu * ns),
        wall_ns=int(10 * ns),
        n_runs=10,
        peak_bytes=peak,
    )
    return BlockTrial(arm=arm, outcome=Measured(plan=arm, done=done, elapsed_ns=10**8))


def block(index: int, *trials: BlockTrial) -> Block:
    return Block(index=index, phase="race", trials=trials)


def tuning(blocks: list[Block]) -> Any:
    """The parts of a run that the table reads; the plans were raced in these blocks."""
    entries = {
        arm: SimpleNamespace(arm=arm, plan=plan, is_sound=True)
        for arm, plan in {"a": ARENA, "b": LESS_CPU}.items()
    }
    return SimpleNamespace(
        race=SimpleNamespace(all_blocks=blocks, objective="latency", entries=entries, with_current=False),
        confirmation=[],
        judgement=SimpleNamespace(statistic="median"),
        current=None,
        default=Plan(),
    )


def test_a_plan_that_met_the_machine_in_a_quick_phase_is_not_the_fastest() -> None:
    slow = [block(i, trial(BASE, 2e6), trial("a", 1.6e6)) for i in range(4)]
    quick = [block(4 + i, trial(BASE, 1e6), trial("b", 1e6, cpu=1.0)) for i in range(4)]
    run = tuning([*slow, *quick])
    default = describe([cast("Measured", b.trials[0].outcome) for b in slow], "median")
    run.race.objective = "cold-start"
    fastest, least_cpu, least_memory = trade(run, Plan(), [], default)
    assert fastest.plan == ARENA
    assert fastest.latency_ns == pytest.approx(0.8 * default.latency_ns)
    assert least_cpu.plan == LESS_CPU
    assert least_cpu.latency_ns == pytest.approx(default.latency_ns)
    assert least_cpu.cpu_per_run_ns == pytest.approx(0.5 * default.cpu_per_run_ns)
    assert (fastest.n_blocks, least_cpu.n_blocks, least_memory.n_blocks) == (4, 4, 0)
    assert least_memory.plan == Plan()
    assert least_memory.peak_bytes == default.peak_bytes


def test_the_objectives_own_row_is_what_stays() -> None:
    run = tuning([block(i, trial(BASE, 1e6), trial("a", 0.9e6)) for i in range(4)])
    default = describe([cast("Measured", b.trials[0].outcome) for b in run.race.all_blocks], "median")
    fastest = trade(run, Plan(), [], default)[0]
    assert (fastest.plan, fastest.kept, fastest.latency_ns) == (Plan(), True, default.latency_ns)


def test_the_current_plan_that_no_block_confirmed_has_its_own_figures() -> None:
    run = tuning([block(i, trial(BASE, 1e6), trial("current", 1.3e6, cpu=1.0)) for i in range(4)])
    run.race.with_current, run.current = True, LESS_CPU
    default = describe([cast("Measured", b.trials[0].outcome) for b in run.race.all_blocks], "median")
    fastest, least_cpu, _ = trade(run, LESS_CPU, [], default)
    assert (fastest.plan, fastest.kept) == (LESS_CPU, True)
    assert fastest.latency_ns == pytest.approx(1.3 * default.latency_ns)
    assert least_cpu.plan == LESS_CPU
    assert least_cpu.cpu_per_run_ns == pytest.approx(0.65 * default.cpu_per_run_ns)


def test_the_best_of_noisy_ratios_is_not_told() -> None:
    lucky = [block(0, trial(BASE, 1e6), trial("a", 0.7e6)), block(1, trial(BASE, 1e6), trial("a", 0.95e6))]
    noisy = [block(i, trial(BASE, 1e6), trial("b", ns)) for i, ns in enumerate((0.7e6, 1.4e6, 1.0e6, 1.3e6))]
    run = tuning([*lucky, *noisy])
    run.race.objective = "cold-start"
    default = describe([cast("Measured", run.race.all_blocks[0].trials[0].outcome)], "median")
    assert trade(run, Plan(), [], default)[0].plan == Plan()


@pytest.mark.parametrize(
    ("plan", "default", "live"),
    [
        (ON_GPU, Plan(), True),
        (ON_OPENVINO, Plan(), True),
        (ARENA, Plan(), False),
        (ON_GPU_GRAPH, ON_GPU, False),
        (OPENVINO_STREAMS, ON_OPENVINO, False),
    ],
)
def test_the_memory_that_another_provider_takes_is_reported_and_decides_nothing(
    plan: Plan, default: Plan, live: bool
) -> None:
    race = Halving(worth=0.01, default=default)
    entry = race.add(Entry(plan=plan, origin="a test"))
    for i in range(2):
        race.blocks.append(block(i, trial(BASE, 1e6), trial(entry.arm, 1e5, cpu=0.5, peak=10**9)))
    assert race.eliminate_by_guards(entry) is not live
    assert entry.live is live


@pytest.mark.parametrize("cpu", [2.0, 1.0])
def test_a_default_that_is_faster_than_what_runs_today_is_proposed_or_it_is_said_why_not(cpu: float) -> None:
    """One thread today; the second of the default halves the time, for as much CPU time or for twice as much."""
    blocks = [block(i, trial(BASE, 1e6, cpu=cpu), trial(CURRENT, 2e6, cpu=0.5)) for i in range(4)]
    race = Halving(worth=0.01, with_current=True, blocks=blocks)
    today = Plan(settings={"intra_op_num_threads": 1})
    search = Search(race=race, default=Plan(), current=today)
    search.judgement = cast("Any", SimpleNamespace(statistic="median"))
    search.consider_default()
    if cpu == 1.0:
        assert search.winner is not None and search.winner.plan == Plan() and not rejected(search)
    else:
        assert search.winner is None
        said = rejected(search)
        assert said.startswith("the default was faster than the current configuration (-50 % in 4 blocks)")
        assert "CPU time +100 %" in said and "--allow cpu" in said
