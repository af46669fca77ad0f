"""Who should have the second block where the time is too short for all? Simulated; a few minutes of one core.

    python benchmarks/second_turns.py [--searches 50]

Thirty plans with true effects that are drawn anew in each search: some are likely to pay, most are not. The
calibration's nine blocks hold a turn of each and a second one of half of them; then the race goes on until its time
ends. What counts is whether the plan that leads is faster in truth. The old design lives here alone: chance chose who
had a second block, and in which group of a round a plan stood, and a plan was believed what it showed.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from ortune.measuring.driver import run_block
from ortune.records import Block, Plan
from ortune.search import trial_counts
from ortune.search.blocks import BASE, IDENTICAL, SPIKE, log_ratios
from ortune.search.controls import CALIBRATION_BLOCKS
from ortune.search.first_turns import FirstTurns
from ortune.search.halving import Entry, expected
from ortune.search.schedule import NextBlock, Steps
from ortune.stats import calibration
from simulated import TRIAL_NS, Field, Raced

PRIORS = [0.6, 0.5, 0.5] + [0.2] * 8 + [0.08] * 19
GAINS, LOSSES = (0.03, 0.05, 0.1, 0.15), (0.0, 0.0, 0.0, 0.03, 0.2)
SCATTERS, ENDS = (0.01, 0.03, 0.08, 0.2), (75, 110)
WON = 0.985
"""A leader that takes this much of the default's time, or less, has won something."""


class ByChance(Raced):
    """As it was."""

    def rank(self, entry: Entry) -> float:
        """The median, drawn towards 0."""
        n = len(entry.ratios)
        return entry.median_log_ratio * n / (n + 2)

    def round(self, entries: Sequence[Entry]) -> Steps[bool]:
        """Groups by chance."""
        order = list(entries)
        self.rng.shuffle(order)
        groups = -(-len(order) // trial_counts.FIELD)
        for i in range(groups):
            if not (yield from self.block(order[i::groups])):
                return False
        return True


class TurnsByChance(FirstTurns):
    """As they were."""

    def __call__(self) -> list[str]:
        """Of those that ran least any."""
        assert isinstance(self.race, Raced)
        entries = list(self.race.entries.items())
        self.race.rng.shuffle(entries)
        self.race.entries = dict(entries)
        return super().__call__()


def search(
    kind: type[Raced], turns: type[FirstTurns], scatter: float, end: int, seed: int
) -> tuple[float, float]:
    """The leader's time and the best plan's, over the default's."""
    rng = random.Random(seed)
    plans, factors = [], {}
    for number, prior in enumerate(PRIORS):
        gain = rng.choice(GAINS) if rng.random() < 0.6 * prior else 0.0
        plan = Plan(settings={"intra_op_num_threads": number + 1})
        plans.append(plan)
        factors[plan.id] = math.exp(rng.gauss(0, 0.004) - gain + rng.choice(LOSSES))
    machine = Field(factors, seed, scatter)
    race = kind(machine=machine, end_ns=end * TRIAL_NS, rng=rng, scale=0.0)
    for plan, prior in zip(plans, PRIORS, strict=True):
        race.add(Entry(plan=plan, origin="", expected=expected(prior)))
    first = turns(race=race, room=trial_counts.IN_CALIBRATION)
    for index in range(CALIBRATION_BLOCKS):
        arms = (BASE, IDENTICAL, SPIKE, *first())
        wanted = NextBlock(arms=arms, index=index, phase="calibration", needed=(BASE,))
        block = run_block(machine, wanted, rng)
        assert isinstance(block, Block)
        race.earlier.append(block)
        race.note(block, len(block.trials) * TRIAL_NS)
        first.count_turns(block)
    race.scale = calibration.null_scale(np.asarray(log_ratios(race.earlier, IDENTICAL, "median")))
    for block in race.earlier:
        race.record_ratios(block)
    race.go(race.screen(list(race.entries.values())))
    leader = next((e for e in race.live() if len(e.ratios) >= trial_counts.ROUNDS[0]), None)
    return (factors[leader.arm] if leader else 1.0), min(factors.values())


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--searches", type=int, default=50)
    asked = parser.parse_args()
    print("| scatter of a trial | search ends after | random | most promising first |\n|---:|---:|---:|---:|")
    for scatter in SCATTERS:
        for end in ENDS:
            shares = []
            for kind, turns in ((ByChance, TurnsByChance), (Raced, FirstTurns)):
                found = [search(kind, turns, scatter, end, seed) for seed in range(asked.searches)]
                won = [leader <= WON for leader, best in found if best <= WON]
                shares.append(sum(won) / len(won))
            print(
                f"| {100 * scatter:.0f} % | {end} trials | {100 * shares[0]:.0f} % | {100 * shares[1]:.0f} % |",
                flush=True,
            )


if __name__ == "__main__":
    main()
