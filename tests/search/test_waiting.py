"""Whether waiting for other programs may explain a difference, told from blocks with known waits."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from waiting_blocks import ROUNDS, WAITED, blocks, trial

from facts import facts
from ortune.records import (
    Block,
    BlockTrial,
    Comparison,
    Failed,
    Host,
    Measured,
    Plan,
    ProviderSpec,
)
from ortune.search import confirm
from ortune.search.blocks import BASE, NEW
from ortune.search.waiting import differ_in_threads, only_quiet, waiting_of, with_other_programs
from ortune.show import others_words
from simulated_machine import HOST


def told(
    found: Sequence[Block], statistic: str = "paired", host: Host = HOST, *, favours: bool = True
) -> Comparison:
    def compare(others: Sequence[Block], figure: str) -> Comparison | None:
        return confirm.compare(others, NEW, figure)

    comparison = compare(found, statistic)
    assert comparison is not None
    return with_other_programs(comparison, found, statistic, host, compare, arm=NEW, favours=favours)


def test_a_gain_that_waiting_explains_stays_in_doubt() -> None:
    comparison = told(blocks(1.0, WAITED))
    assert comparison.verdict == "faster" and comparison.others is not None
    assert comparison.others.only_under_load and comparison.others.used_cpus == pytest.approx(1.0)
    quiet = comparison.others.quiet
    assert quiet is not None and quiet.n_rounds == 12 and quiet.of_rounds == 12 * ROUNDS
    assert quiet.verdict != "faster"


def test_a_gain_larger_than_all_waiting_is_plain() -> None:
    comparison = told(blocks(0.7, WAITED))
    assert comparison.others is not None and not comparison.others.explains
    assert comparison.others.quiet is None


def test_a_gain_that_holds_in_quiet_rounds_is_plain() -> None:
    # Two threads wait at once: what they waited together is longer than the delay, and bounds nothing.
    made = [
        msgspec.structs.replace(
            block,
            trials=tuple(
                msgspec.structs.replace(
                    t,
                    outcome=msgspec.structs.replace(
                        t.outcome,
                        done=msgspec.structs.replace(
                            t.outcome.done,
                            turn_waits_ns=tuple(2 * ns for ns in t.outcome.done.turn_waits_ns),
                        ),
                    ),
                )
                for t in block.trials
            ),
        )
        for block in blocks(0.8, WAITED, used_cpus=2.0)
    ]
    comparison = told(made)
    assert comparison.others is not None and not comparison.others.explains
    assert comparison.others.quiet is not None and comparison.others.quiet.verdict == "faster"
    assert comparison.others.quiet.ratio == pytest.approx(0.8, abs=0.01)


def test_a_slower_side_that_waited_is_doubted_alike() -> None:
    comparison = told(blocks(1.0, (0.0,) * ROUNDS, WAITED))
    assert comparison.verdict == "slower"
    assert comparison.others is not None and comparison.others.only_under_load


@pytest.mark.parametrize(("ratio", "cpu", "verdict"), [(1.3, 1.3, "slower"), (0.8, 0.8, "faster")])
def test_a_difference_that_cpu_time_confirms_is_plain(ratio: float, cpu: float, verdict: str) -> None:
    comparison = told(blocks(ratio, WAITED, WAITED, new_cpu=cpu), favours=False)
    assert comparison.verdict == verdict and comparison.others is not None
    assert not comparison.others.explains and comparison.others.quiet is None
    confirmed = comparison.others.cpu_time
    assert confirmed is not None and confirmed.ratio == pytest.approx(cpu, abs=0.02)
    assert confirmed.ratio_high is not None and confirmed.ratio_low < cpu < confirmed.ratio_high
    facts(others_words.words(comparison.others, 0.95), "waiting does not explain", "CPU time per run")


@pytest.mark.parametrize("cpu", [1.0, 0.8])
def test_a_slower_side_without_more_cpu_time_stays_in_doubt(cpu: float) -> None:
    waits = (0.5,) * ROUNDS  # in every round, so none is quiet
    comparison = told(blocks(1.2, waits, waits, new_cpu=cpu), favours=False)
    assert comparison.verdict == "slower" and comparison.others is not None
    assert comparison.others.explains and comparison.others.cpu_time is None


def test_cpu_time_confirms_nothing_about_threads() -> None:
    comparison = told(blocks(0.8, (0.5,) * ROUNDS, (0.5,) * ROUNDS, new_cpu=0.8))
    assert comparison.others is not None and comparison.others.only_under_load
    assert comparison.others.cpu_time is None


@pytest.mark.parametrize("used_cpus", [0.0, 0.02, None])
def test_threads_that_wait_for_each_other_are_no_busy_machine(used_cpus: float | None) -> None:
    assert told(blocks(0.7, WAITED, used_cpus=used_cpus)).others is None


def test_programs_on_cpus_that_trials_may_not_use_take_nothing() -> None:
    small = msgspec.structs.replace(HOST, effective_cpus=2)  # of four
    assert told(blocks(0.7, WAITED, used_cpus=2.0), host=small).others is None


def test_a_side_that_waited_for_nothing_is_not_doubted() -> None:
    assert told(blocks(0.7, (0.0,) * ROUNDS)).others is None


def test_unknown_waits_are_bounded_by_what_others_used() -> None:
    comparison = told(blocks(0.9, WAITED, known=False))
    assert comparison.others is not None and comparison.others.explains and comparison.others.quiet is None


def test_a_comparison_of_memory_waits_for_nothing() -> None:
    found = blocks(0.7, WAITED)
    done = [
        msgspec.structs.replace(
            block,
            trials=tuple(
                msgspec.structs.replace(
                    t,
                    outcome=msgspec.structs.replace(
                        t.outcome,
                        done=msgspec.structs.replace(
                            t.outcome.done, peak_bytes=10**6 * (2 if t.arm == BASE else 1)
                        ),
                    ),
                )
                for t in block.trials
            ),
        )
        for block in found
    ]
    comparison = told(done, "memory")
    assert comparison.verdict == "faster" and comparison.others is None


def test_a_block_with_a_failed_side_has_no_rounds() -> None:
    made = blocks(0.7, WAITED)
    failed = BlockTrial(arm=NEW, outcome=Failed(plan=NEW, reason="crash", what="killed"))
    made[0] = msgspec.structs.replace(made[0], trials=(made[0].trials[0], failed))
    counted = only_quiet(made, NEW)
    assert counted is not None and counted.of_rounds == 11 * ROUNDS


def test_rounds_are_selected_alike_whichever_side_is_called_base() -> None:
    made = blocks(0.9, WAITED, tuple(reversed(WAITED)))
    one, other = only_quiet(made, NEW, BASE), only_quiet(made, BASE, NEW)
    assert one is not None and other is not None and one.n_rounds == other.n_rounds


def test_waiting_is_never_longer_than_others_used_the_cpus() -> None:
    outcome = trial(BASE, 1.0, (3.0,) * ROUNDS, used_cpus=0.5).outcome
    assert isinstance(outcome, Measured)
    found = waiting_of(outcome, HOST)
    assert found is not None and found.share == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("setting", "value", "differs"),
    [
        ("intra_op_num_threads", 1, True),
        ("allow_spinning", False, True),
        ("process_affinity", "0", True),
        ("spin_duration_us", 10, True),
        ("graph_optimization_level", "basic", False),
        ("enable_mem_pattern", False, False),
    ],
)
def test_threads_spinning_and_affinity_differ_under_load(setting: str, value: object, differs: bool) -> None:
    plan = Plan(settings={setting: value})  # type: ignore[dict-item]
    assert differ_in_threads(plan, Plan()) == differs
    assert differ_in_threads(Plan(), plan) == differs
    assert not differ_in_threads(plan, plan)


def test_a_pool_set_as_an_option_of_a_provider_is_one_too() -> None:
    xnnpack = ProviderSpec(name="XnnpackExecutionProvider")
    threads = msgspec.structs.replace(xnnpack, options={"intra_op_num_threads": "2"})
    assert differ_in_threads(Plan(providers=(threads,)), Plan(providers=(xnnpack,)))
    assert not differ_in_threads(Plan(providers=(xnnpack,)), Plan())


NOISY = 0.2


def test_an_inconclusive_comparison_on_a_busy_machine_promises_no_answer_from_more_time() -> None:
    comparison = told(blocks(0.9, WAITED, WAITED, noise_log=NOISY))
    assert comparison.verdict == "inconclusive" and comparison.ratio_high is not None
    assert comparison.others is not None and comparison.others.hides and not comparison.others.explains
    assert comparison.more_s is None and comparison.more_blocks is None
    text = others_words.words(comparison.others, comparison.level)
    assert "1.0 of 4 CPUs" in text and "--wait-quiet" in text
    assert others_words.wait_options(comparison) and not others_words.doubts(comparison)


@pytest.mark.parametrize("used_cpus", [0.0, 0.15, None])
def test_an_inconclusive_comparison_on_a_quiet_machine_blames_nobody(used_cpus: float | None) -> None:
    comparison = told(blocks(0.9, WAITED, WAITED, used_cpus, noise_log=NOISY))
    assert comparison.verdict == "inconclusive" and comparison.others is None


def test_a_busy_machine_for_which_no_side_waited_hides_nothing() -> None:
    comparison = told(blocks(0.9, (0.0,) * ROUNDS, noise_log=NOISY))
    assert comparison.verdict == "inconclusive" and comparison.others is None


def test_memory_is_not_hidden_by_programs_that_use_cpus() -> None:
    found = blocks(0.9, WAITED, WAITED, noise_log=NOISY)
    assert told(found, "cpu").others is None
