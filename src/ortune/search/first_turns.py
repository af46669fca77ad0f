"""Chooses the plans that run their first trials in the calibration's blocks, and that fit if it is repeated."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ortune.records import Block
from ortune.search import trial_counts
from ortune.search.blocks import log_ratio
from ortune.search.controls import CALIBRATION_BLOCKS
from ortune.search.figures import LATENCIES
from ortune.search.halving import Entry, Halving

PLAINLY_SLOWER = 1.25
"""Ratio of a plan's latency to the default's in a calibration block, above which it runs in no further such block."""


@dataclass(slots=True, kw_only=True)
class FirstTurns:
    """Chooses the plans that run in the calibration's next block.

    Attributes:
        race: The race with the plans.
        room: Number of plans that fit into a block in addition to the references and the controls.
    """

    race: Halving
    room: int
    _turns: dict[str, int] = field(default_factory=dict)  # number of blocks that a plan ran in
    _ruled_out: set[str] = field(default_factory=set)

    def __call__(self) -> list[str]:
        """Return the arms for the next block: the plans that ran in the fewest blocks, in the order of the race.

        The plan that is only timed is in each block, in addition to the others.
        """
        # The sort is stable: plans with equally few turns keep the order of the race (best prior first).
        candidates = (e for e in self.race.entries.values() if e.live and e.arm not in self._ruled_out)
        live = [e for e in candidates if self._turns.get(e.arm, 0) < trial_counts.ROUNDS[0]]
        chosen = sorted(live, key=lambda e: self._turns.get(e.arm, 0))[
            : min(self.room, trial_counts.IN_CALIBRATION)
        ]
        return [*self.race.only_timed(CALIBRATION_BLOCKS), *(entry.arm for entry in chosen)]

    def count_turns(self, block: Block) -> None:
        """Count the block for each of its plans, and rule out plans that are clearly slower."""
        for arm in {trial.arm for trial in block.trials} & self.race.entries.keys():
            self._turns[arm] = self._turns.get(arm, 0) + 1
            # The calibration has not chosen its statistic yet, so the usual one is used.
            if (log_ratio(block, arm, LATENCIES[0]) or 0.0) > math.log(PLAINLY_SLOWER):
                self._ruled_out.add(arm)

    def restart(self, trial_ns: float) -> tuple[list[Entry], float]:
        """Reset the counts for a repeated calibration, and remove from the race the plans that no longer fit.

        Args:
            trial_ns: Duration of a trial.

        Returns:
            The removed plans, in the order of the race, and the nanoseconds by which the controls and the shortest
            confirmation exceed the budget.
        """
        race = self.race
        trials = race.left.ns / trial_ns - len(race.only_timed(CALIBRATION_BLOCKS)) * CALIBRATION_BLOCKS
        live = [entry for entry in race.entries.values() if entry.live]
        n_plans, beyond = trial_counts.divide_again(
            trials, trials - race.kept_ns / trial_ns, wanted=len(live), references=race.references
        )
        for entry in live[n_plans:]:
            del race.entries[entry.arm]
        self._turns.clear()
        return live[n_plans:], beyond * trial_ns
