"""The first turns of the plans to try, in the calibration's own blocks, and which of them a repeat still holds."""

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
"""Times the default's latency in the first turns of the calibration, after which a plan gets no second ones there."""


@dataclass(slots=True, kw_only=True)
class FirstTurns:
    """Chooses the plans that take their turns in the calibration's next block.

    Attributes:
        race: Whose plans they are.
        room: Number of plans that fit in a block in addition to the references and the controls.
    """

    race: Halving
    room: int
    _turns: dict[str, int] = field(default_factory=dict)  # blocks that a plan stood in
    _ruled_out: set[str] = field(default_factory=set)

    def __call__(self) -> list[str]:
        """Plans for the next block: of those that ran least the first in the race, which are the likeliest to pay.

        The plan that is only timed is in each block, in a place of its own.
        """
        # Sorting is stable: among plans with equally few turns, the order of the race (best prior first)
        # remains.
        candidates = (e for e in self.race.entries.values() if e.live and e.arm not in self._ruled_out)
        live = [e for e in candidates if self._turns.get(e.arm, 0) < trial_counts.ROUNDS[0]]
        chosen = sorted(live, key=lambda e: self._turns.get(e.arm, 0))[
            : min(self.room, trial_counts.IN_CALIBRATION)
        ]
        return [*self.race.only_timed(CALIBRATION_BLOCKS), *(entry.arm for entry in chosen)]

    def see(self, block: Block) -> None:
        """Take note of who had a turn, and of what is plainly slower."""
        for arm in {trial.arm for trial in block.trials} & self.race.entries.keys():
            self._turns[arm] = self._turns.get(arm, 0) + 1
            # The calibration has not chosen its statistic yet, so the usual one decides.
            if (log_ratio(block, arm, LATENCIES[0]) or 0.0) > math.log(PLAINLY_SLOWER):
                self._ruled_out.add(arm)

    def again(self, trial_ns: float) -> tuple[list[Entry], float]:
        """The calibration is repeated, and with it every turn: out of the race, as its figures do not count.

        Args:
            trial_ns: What a trial takes.

        Returns:
            The plans for which the budget has no room any more, which leave the race, the last proposed first; and the
            nanoseconds by which the controls and the shortest confirmation go beyond it.
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
