"""The fixed schedule: a calibration, then so many blocks of all arms, decided beforehand. For diagnose and history."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.records import Block, Control
from ortune.search import controls
from ortune.search.blocks import BASE, IDENTICAL, log_ratios
from ortune.search.controls import CALIBRATION_BLOCKS
from ortune.search.phases import FIXED_TIMES
from ortune.search.schedule import NextBlock, Schedule, ScheduleProgress, Steps

LEAST_BLOCKS, MOST_BLOCKS = 9, 40
LEAST_EXPLORED = 6
"""Blocks without controls: fewer give no interval."""
CONTROLS = 3
"""Trials of a block of the calibration: the base, its double, and the one with a wait."""
REPEATED = controls.LEAST_BLOCKS * CONTROLS
"""Trials of the shortest calibration."""


def least_trials(n_changes: int, *, controlled: bool = True) -> int:
    """Return the trials of the shortest session of so many changes: calibration and blocks, or blocks alone."""
    if not controlled:
        return LEAST_EXPLORED * (1 + n_changes)
    # Example: one change. 18 + 9 x 3 = 45 trials.
    return REPEATED + LEAST_BLOCKS * (2 + n_changes)


def blocks_within(trials: float, n_arms: int, least: int = LEAST_BLOCKS) -> int:
    """Return the blocks of so many arms that fit into a number of trials: none below ``least``, and 40 at most."""
    return max(least, min(MOST_BLOCKS, int(trials / (n_arms * FIXED_TIMES))))


class Fixed(Schedule):
    """Run every arm next to the base and its double, a fixed number of times; a stop ends it after a block.

    Without controls, because they were not requested or did not fit, the blocks support no claim.

    Attributes:
        arms: Of the blocks after the calibration, the base first and its double last, where there are controls.
        n_blocks: How many of them; set before the first one, as the calibration says how long trials are.
        blocks: Those that ran.
        controls: What the calibration and all blocks together say of the machine.
    """

    def __init__(
        self, arms: Sequence[str], fixed: str | None, n_blocks: int = LEAST_BLOCKS, *, controlled: bool = True
    ) -> None:
        self.arms = (BASE, *arms, IDENTICAL) if controlled else (BASE, *arms)
        self.controlled = controlled
        self.n_blocks = n_blocks
        self.blocks: list[Block] = []
        self.controls: list[Control] = []
        self._n_told = 0
        self.begin(self._all(fixed))

    @property
    def standing(self) -> ScheduleProgress:
        """How far it is."""
        calibrating = self.judgement is None
        return ScheduleProgress(
            n_blocks=self._n_told if calibrating else len(self.blocks),
            most_blocks=CALIBRATION_BLOCKS if calibrating else self.n_blocks,
            live=self.arms,
        )

    def note(self, block: Block, took_ns: int) -> None:
        """Count a block."""
        self._n_told += 1
        if block.phase == "confirm":
            self.blocks.append(block)

    def late(self, n_trials: int) -> bool:
        """True also where a calibration would leave no time for the fewest blocks after it, which ends it early."""
        after = LEAST_BLOCKS * len(self.arms) if self.judgement is None else 0
        return super().late(n_trials + after)

    def _all(self, fixed: str | None) -> Steps[None]:
        if self.controlled:
            judgement = yield from self.calibrate([BASE], fixed, again=lambda: not self.late(REPEATED))
        else:
            judgement = self.judgement = controls.unjudged(fixed)
        if not judgement.ok:
            raise controls.failed(again=False)
        first = len(self.calibration)
        while len(self.blocks) < self.n_blocks and not self.left.stop and not self.late(len(self.arms)):
            index = first + len(self.blocks)
            yield NextBlock(arms=self.arms, index=index, phase="confirm", needed=(BASE,), whole=True)
        ratios = log_ratios([*self.calibration, *self.blocks], IDENTICAL, judgement.statistic)
        if judgement.controls:
            self.controls = [*judgement.controls, *controls.late_controls(ratios)]
