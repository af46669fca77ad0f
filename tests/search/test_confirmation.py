"""The confirmation with a fake executor: fresh blocks of a fixed number, which claim no more often than they may."""

from __future__ import annotations

import random

import pytest
from race_machine import confirmed, entry, plan, race

from ortune.records import Block
from ortune.search import confirm, trial_counts
from ortune.search.phases import RACE_TIMES
from simulated import TRIAL_NS, Field


def test_confirmation_is_on_fresh_blocks_of_a_fixed_number_and_covers_the_truth() -> None:
    covered = 0
    for seed in range(40):
        field = Field({plan("1").id: 0.95}, seed=seed, noise=0.02)
        run = race(field)
        winner = run.add(entry("1"))
        run.go(run.screen([winner]))
        blocks = confirmed(run, winner, 12)
        assert len(blocks) == 12
        assert all(b.phase == "confirm" and b.index >= len(run.blocks) for b in blocks)
        found = confirm.compare(blocks, winner.arm, "median")
        assert found is not None
        assert found.phase == "confirm"
        assert found.ratio_high is not None
        covered += found.ratio_low <= 0.95 <= found.ratio_high
    assert covered >= 34


@pytest.mark.parametrize(("asked_after", "blocks"), [(0, 9), (4, 9), (9, 9), (13, 13), (24, 24)])
def test_a_stop_ends_the_confirmation_with_the_ninth_block_or_the_one_that_runs(
    asked_after: int, blocks: int
) -> None:
    run = race(Field({plan("1").id: 0.9}))
    done: list[Block] = []
    run.stop = lambda: len(done) >= asked_after
    run.ran = done.append
    found = confirmed(run, run.add(entry("1")), 24)
    assert found == done
    assert len(found) == blocks


def test_confirming_an_equal_plan_hardly_ever_claims() -> None:
    claims = 0
    for seed in range(40):
        field = Field({plan("1").id: 1.0}, seed=100 + seed, noise=0.02)
        run = race(field)
        winner = run.add(entry("1"))
        blocks = confirmed(run, winner, 12)
        found = confirm.compare(blocks, winner.arm, "median")
        assert found is not None
        claims += found.verdict in ("faster", "slower")
    assert claims <= 5


@pytest.mark.parametrize("slower_from", [0, 8, 20])
def test_a_confirmation_that_becomes_slow_ends_with_the_time(slower_from: int) -> None:
    """Blocks that take three times as long as was thought: nine where they fit, and never a tenth beyond the budget."""
    field = Field({plan("1").id: 0.8})
    run = race(field)
    winner = run.add(entry("1"))
    n = 16
    end_ns = n * 2 * TRIAL_NS * RACE_TIMES

    def slower(block: Block) -> None:
        if len(field.calls) >= slower_from:
            field.trial_ns = 3 * TRIAL_NS

    field.trial_ns = TRIAL_NS if slower_from else 3 * TRIAL_NS
    run.ran, run.end_ns = slower, end_ns
    blocks = confirmed(run, winner, n, beyond_ns=0.1 * end_ns)
    assert field.now <= 1.1 * end_ns + 3 * TRIAL_NS
    assert len(blocks) < n
    found = confirm.compare(blocks, winner.arm, "median")
    assert found is not None
    assert found.verdict == ("faster" if len(blocks) >= trial_counts.LEAST_CONFIRM else "inconclusive")


def test_a_confirmation_that_the_clock_ends_claims_no_more_often() -> None:
    claims = 0
    for seed in range(60):
        field = Field({plan("1").id: 1.0}, seed=500 + seed, noise=0.02)
        run = race(field)
        winner = run.add(entry("1"))
        slow = random.Random(seed).randrange(4, 30)

        def slower(block: Block, field: Field = field, slow: int = slow) -> None:
            field.trial_ns = TRIAL_NS * (2 if len(field.calls) > slow else 1)

        run.ran, run.end_ns = slower, 32 * TRIAL_NS
        blocks = confirmed(run, winner, 16, beyond_ns=8 * TRIAL_NS)
        found = confirm.compare(blocks, winner.arm, "median")
        assert found is not None
        claims += found.verdict in ("faster", "slower")
    assert claims <= 6
