"""How busy the machine was said to be: idle only where it was."""

from __future__ import annotations

import pytest

from facts import facts
from ortune.records import Block, BlockTrial, CaseTimes, Host, Measured, Plan, Sensors, TrialDone
from ortune.search.blocks import BASE
from ortune.search.state import Search
from ortune.verbs._shared.other_programs import without_comparison
from ortune.verbs._shared.tuned_conditions import conditions

HOST = Host(
    system="Linux", machine="x86_64", cpu="", cores=2, logical=2, affinity=2, effective_cpus=2, memory_bytes=1,
)  # fmt: skip


def measured(**sensors: object) -> Measured:
    case = CaseTimes(case="", weight=1.0, latency_ns=(10**6,), first_ns=10**6, warmup_runs=1)
    done = TrialDone(load_ns=1, cases=(case,), cpu_ns=1, wall_ns=1, n_runs=1)
    return Measured(plan="", done=done, elapsed_ns=10**9, sensors=Sensors(elapsed_ns=10**9, **sensors))


@pytest.mark.parametrize(
    ("leader", "words"),
    [
        (Plan(settings={"intra_op_num_threads": 1}), ["1.6 of 2 CPUs", "fewer threads win", "--wait-quiet"]),
        (Plan(settings={"graph_optimization_level": "basic"}), ["1.6 of 2 CPUs", "may explain"]),
        (None, ["1.6 of 2 CPUs", "times are too long"]),
    ],
)
def test_a_search_without_a_comparison_knows_the_other_programs(
    leader: Plan | None, words: list[str]
) -> None:
    busy = [measured(others_cpu_us=1_600_000, psi_cpu_some_us=900_000, load1=3.0)] * 3
    found = without_comparison(busy, HOST, leader, Plan())
    assert found is not None and found.cpus == 2 and found.used_cpus == pytest.approx(1.6)
    facts(found.words, *words)
    quiet = [measured(others_cpu_us=20_000, psi_cpu_some_us=0, load1=1.0)] * 3
    assert without_comparison(quiet, HOST, leader, Plan()) is None
    assert without_comparison([measured(load1=1.0)], HOST, leader, Plan()) is None


@pytest.mark.parametrize(
    ("waited_us", "others_us", "load1", "said"),
    [
        (10_000, None, 1.9, "on an idle machine"),
        (10_000, None, 3.2, ""),  # a neighbour on another CPU, for which nobody waits
        (100_000, None, 1.9, ""),
        (400_000, None, 1.9, "on a busy machine"),
        (None, None, 1.9, ""),
        # The trials waited for each other, and the load is of before.
        (400_000, 20_000, 3.2, "on an idle machine"),
        (400_000, 400_000, 1.9, "on a busy machine"),
        (10_000, 900_000, 1.9, ""),
    ],
)
def test_conditions(waited_us: int | None, others_us: int | None, load1: float, said: str) -> None:
    outcome = measured(load1=load1, psi_cpu_some_us=waited_us, others_cpu_us=others_us, cpu_over_wall=1.8)
    trial = BlockTrial(arm=BASE, outcome=outcome)
    search = Search(race=None, default=Plan(), current=None)  # type: ignore[arg-type]
    search.calibration = [Block(index=0, phase="calibration", trials=(trial,))]
    assert conditions(search) == said
