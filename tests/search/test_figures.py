"""Figures of one side: what is described, with its interval where there are processes enough."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from ortune.records import Block, BlockTrial, CaseTimes, Failed, Measured, PageSeen, Placement, TrialDone
from ortune.search.blocks import BASE, NEW
from ortune.search.figures import describe, figure, samples, turns, without_latencies
from ortune.search.guards import other_changes


def trials(n: int, spread: float = 1.5) -> list[Measured]:
    """Processes whose runs lie evenly between 1 ms and a little more than ``spread`` times that."""
    rng = np.random.default_rng(4)
    found = []
    for _ in range(n):
        runs = np.linspace(1.0, spread, 101) * 1e6 * np.exp(0.05 * rng.standard_normal())
        case = CaseTimes(case="x", weight=1.0, latency_ns=tuple(int(v) for v in runs), first_ns=10**6)
        done = TrialDone(
            load_ns=10**7, cases=(case,), cpu_ns=10**8, wall_ns=10**8, n_runs=101, peak_bytes=10**8
        )
        found.append(Measured(plan="p", done=done, elapsed_ns=10**9))
    return found


def test_the_spread_within_a_process_comes_with_an_interval_over_processes() -> None:
    found = describe(trials(9), "median")
    assert found.spread_ratio == pytest.approx((1 + 0.9 * 0.5) / (1 + 0.1 * 0.5), rel=1e-3)
    assert found.spread_low_ratio is not None
    assert found.spread_high_ratio is not None
    # However fast each process was: the spread is relative, so here it is the same in all of them.
    assert found.spread_low_ratio == pytest.approx(found.spread_high_ratio, rel=1e-3)


def test_too_few_processes_give_no_interval() -> None:
    found = describe(trials(5), "median")
    assert found.spread_ratio is not None
    assert found.spread_low_ratio is None


@pytest.mark.parametrize(("statistic", "quantile"), [("p95", 0.95), ("p10", 0.1)])
def test_the_latency_is_the_median_whatever_was_compared(statistic: str, quantile: float) -> None:
    found, plain = describe(trials(9), statistic), describe(trials(9), "median")
    assert found.latency_ns == plain.latency_ns
    assert plain.objective_ns is None
    typical = plain.latency_ns / 1.25  # the shortest run of the process in the middle
    assert found.objective_ns == pytest.approx(typical * (1 + 0.5 * quantile), rel=1e-3)
    assert found.objective_low_ns is not None and found.objective_high_ns is not None
    assert found.objective_low_ns <= found.objective_ns <= found.objective_high_ns


def test_the_time_to_a_first_result_is_a_pages_and_begins_with_its_download() -> None:
    (process,) = trials(1)
    assert figure(process, "first-result") is None
    page = PageSeen(
        browser="Chromium", isolated=True, download_bytes=10**6, download_ns=8 * 10**8, import_ns=5
    )
    done = msgspec.structs.replace(process.done, page=page)
    trial = msgspec.structs.replace(process, done=done)
    assert figure(trial, "first-result") == 8 * 10**8 + 5 + (figure(process, "cold-start") or 0)
    assert describe([trial], "first-result").objective_ns == figure(trial, "first-result")
    assert figure(process, "main-thread") is None and figure(trial, "main-thread") is None  # not looked at


def test_a_page_that_logged_all_that_it_did_tells_no_start_where_others_do() -> None:
    page = PageSeen(browser="Chromium", isolated=True)
    gpu = (Placement(provider="WebGpuExecutionProvider", n_nodes=1, n_parts=0),)

    def start(load_ns: int, placement: tuple[Placement, ...], of: PageSeen | None = page) -> Measured:
        (trial,) = trials(1)
        done = msgspec.structs.replace(trial.done, load_ns=load_ns, placement=placement, page=of)
        return msgspec.structs.replace(trial, done=done)

    logged, plain = start(9000, gpu), [start(1000, ()), start(1200, ())]
    assert describe(trials(1), "median", [logged, *plain]).load_ns == 1100
    assert describe(trials(1), "median", [logged]).load_ns == 9000
    process = start(9000, gpu, None)  # which tells its placement unlogged
    assert describe(trials(1), "median", [process, *plain]).load_ns == 1200


def test_throughput_of_several_callers_is_not_taken_for_a_latency() -> None:
    # Four callers whose runs overlap: 202 runs in 100 ms, though each takes over a millisecond.
    several = [
        msgspec.structs.replace(t, done=msgspec.structs.replace(t.done, n_callers=4, n_runs=202))
        for t in trials(9)
    ]
    found = describe(several, "mean")
    assert found.objective_ns == pytest.approx(1e8 / 202)
    assert found.latency_ns > 1e6


@pytest.mark.parametrize("statistic", ["median", "cold-start", "memory", "cpu"])
def test_what_has_a_row_of_its_own_is_not_told_twice(statistic: str) -> None:
    assert describe(trials(9), statistic).objective_ns is None


@pytest.mark.parametrize("statistic", ["median", "p10", "p95", "mean", "cold-start", "memory", "cpu"])
def test_without_its_latencies_a_block_tells_the_same(statistic: str) -> None:
    crash = BlockTrial(arm="b", outcome=Failed(plan="b", reason="crash", what="killed"))
    mine = trials(9)
    mine[3] = msgspec.structs.replace(
        mine[3], done=msgspec.structs.replace(mine[3].done, cases=(mine[3].done.cases[0],) * 2)
    )
    block = Block(index=0, phase="race", trials=(*(BlockTrial(arm="a", outcome=t) for t in mine), crash))
    small = without_latencies(block)
    assert small.trials[-1] == crash
    kept = [t.outcome for t in small.trials if isinstance(t.outcome, Measured)]
    assert [figure(t, statistic) for t in kept] == [figure(t, statistic) for t in mine]
    assert figure(kept[3], statistic, "x") == figure(mine[3], statistic, "x")
    assert describe(kept, statistic) == describe(mine, statistic)
    assert all(len(samples(t)) == 0 for t in kept)


def test_a_trial_without_runs_stays_one() -> None:
    case = CaseTimes(case="x", weight=1.0, latency_ns=(), first_ns=10**6)
    done = TrialDone(load_ns=10**7, cases=(case,), cpu_ns=0, wall_ns=0, n_runs=0)
    block = Block(index=0, phase="race", trials=(BlockTrial(arm="a", outcome=Measured(plan="a", done=done)),))
    outcome = without_latencies(block).trials[0].outcome
    assert isinstance(outcome, Measured)
    assert figure(outcome, "median") is None
    assert figure(outcome, "cold-start") == 1.1e7


def test_every_side_has_its_p95() -> None:
    found = describe(trials(9), "median")
    assert found.p95_ns == pytest.approx(found.latency_ns / 1.25 * 1.475, rel=1e-3)


def paired(ratio: float, load_ratio: float, n: int = 9) -> list[Block]:
    """Blocks whose new side takes so many times as long, and loads so many times as long."""
    blocks = []
    for index, base in enumerate(trials(n)):
        (case,) = base.done.cases
        slower = msgspec.structs.replace(case, latency_ns=tuple(int(ratio * v) for v in case.latency_ns))
        done = msgspec.structs.replace(
            base.done, cases=(slower,), load_ns=int(load_ratio * base.done.load_ns)
        )
        sides = ((BASE, base), (NEW, msgspec.structs.replace(base, done=done)))
        found = tuple(BlockTrial(arm=arm, outcome=outcome) for arm, outcome in sides)
        blocks.append(Block(index=index, phase="confirm", trials=found))
    return blocks


def test_the_p50_is_told_beside_another_statistic_and_the_load_where_processes_loaded_alone() -> None:
    blocks, alone = paired(1.1, 2.0), paired(1.0, 1.5, n=6)
    p50, load = other_changes(blocks, "p10", alone=alone)
    assert (p50.figure, load.figure) == ("p50", "load")
    assert p50.ratio == pytest.approx(1.1, rel=1e-3) and load.ratio == pytest.approx(1.5, rel=1e-3)
    assert [each.figure for each in other_changes(blocks, "paired", alone=alone)] == ["load"]
    assert other_changes(blocks, "paired") == (), "processes of a block load at once"
    assert other_changes(paired(1.1, 2.0, n=5), "p10") == (), "too few for an interval"


def test_where_starts_are_compared_those_of_the_blocks_are_told() -> None:
    """Each is alone there: the few that ran besides are no part of what was compared."""
    (other,) = trials(1)
    other = msgspec.structs.replace(other, done=msgspec.structs.replace(other.done, load_ns=5))
    assert describe(trials(9), "cold-start", [other]).load_ns == 10**7
    assert describe(trials(9), "median", [other]).load_ns == 5
    (load,) = (each for each in other_changes(paired(1.1, 2.0), "cold-start") if each.figure == "load")
    assert load.ratio == pytest.approx(2.0)


@pytest.mark.parametrize("sizes", [(8, 8, 3, 8, 0, 3, 71), (0, 101), (1,) * 101, (20, 20, 20, 20, 0, 20)])
@pytest.mark.parametrize(("statistic", "level"), [("paired", 0.5), ("paired-low", 0.25)])
def test_turns_are_read_as_one_by_one(sizes: tuple[int, ...], statistic: str, level: float) -> None:
    (process,) = trials(1)
    case = process.done.cases[0]
    case = msgspec.structs.replace(case, turn_runs=sizes, latency_ns=case.latency_ns[: sum(sizes)])
    runs, ends = np.asarray(case.latency_ns, dtype=float), np.cumsum(sizes)
    alone = [
        np.quantile(runs[end - size : end], level) for size, end in zip(sizes, ends, strict=True) if size
    ]
    done = msgspec.structs.replace(process.done, cases=(case,))
    assert list(turns(msgspec.structs.replace(process, done=done), statistic)) == alone


@pytest.mark.parametrize("statistic", ["paired", "paired-low", "p10"])
def test_quantiles_of_one_side_are_in_order(statistic: str) -> None:
    """Turns of a busy machine: two quick ones of 40 runs, and three of 10 that another program slowed down."""
    sizes = (40, 10, 40, 10, 10)
    runs = [ns for size in sizes for ns in range(1_700_000, 1_700_000 + size)]
    runs = [ns + 400_000 * (size == 10) for ns, size in zip(runs, np.repeat(sizes, sizes), strict=True)]
    case = CaseTimes(case="x", weight=1.0, latency_ns=tuple(map(int, runs)), first_ns=10**6, turn_runs=sizes)
    done = TrialDone(
        load_ns=10**7, cases=(case,), cpu_ns=10**8, wall_ns=10**8, n_runs=len(runs), peak_bytes=10**8
    )
    process = Measured(plan="p", done=done, elapsed_ns=10**9)
    assert np.median(turns(process, "paired-low")) > np.median(samples(process)), "the turns are as described"
    found = describe([process] * 6, statistic)
    compared = found.latency_ns if found.objective_ns is None else found.objective_ns
    assert compared <= found.latency_ns
    assert found.p95_ns is not None and found.latency_ns <= found.p95_ns
    # A block whose runs were reduced to its figures gives the same.
    reduced = without_latencies(Block(index=0, phase="race", trials=(BlockTrial(arm=BASE, outcome=process),)))
    outcome = reduced.trials[0].outcome
    assert isinstance(outcome, Measured) and figure(outcome, statistic) == figure(process, statistic)
