"""The fixed schedule: a calibration, then a fixed number of blocks of all arms, for diagnose and history."""

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
"""Minimum blocks without controls; fewer give no interval."""
CONTROLS = 3
"""Trials per block of the calibration: the base, its copy, and the base with a wait."""
REPEATED = controls.LEAST_BLOCKS * CONTROLS
"""Trials of the shortest calibration."""


def least_trials(n_changes: int, *, controlled: bool = True) -> int:
    """Return the trials of the shortest session with a number of changes; without controls, of the blocks only."""
    if not controlled:
        return LEAST_EXPLORED * (1 + n_changes)
    # Example: one change. 18 + 9 x 3 = 45 trials.
    return REPEATED + LEAST_BLOCKS * (2 + n_changes)


def blocks_within(trials: float, n_arms: int, least: int = LEAST_BLOCKS) -> int:
    """Return the number of blocks that fit into a number of trials, at least ``least`` and at most 40."""
    return max(least, min(MOST_BLOCKS, int(trials / (n_arms * FIXED_TIMES))))


class Fixed(Schedule):
    """Runs every arm with the base and its copy a fixed number of times; a stop ends it after a block.

    Without controls, because they were not requested or did not fit, the blocks support no claim.

    Attributes:
        arms: Arms of the blocks after the calibration: the base first and, with controls, its copy last.
        n_blocks: Number of these blocks; set before the first one, since the calibration shows how long trials are.
        blocks: Blocks that ran after the calibration.
        controls: Controls of the calibration and of all blocks together.
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
        """Progress of the schedule."""
        calibrating = self.judgement is None
        return ScheduleProgress(
            n_blocks=self._n_told if calibrating else len(self.blocks),
            most_blocks=CALIBRATION_BLOCKS if calibrating else self.n_blocks,
            live=self.arms,
        )

    def note(self, block: Block, took_ns: int) -> None:
        """Count a block, and keep it if it is not of the calibration."""
        self._n_told += 1
        if block.phase == "confirm":
            self.blocks.append(block)

    def late(self, n_trials: int) -> bool:
        """Return whether a block would end late; during calibration, whether too few blocks would fit after it."""
        after = LEAST_BLOCKS * len(self.arms) if self.judgement is None else 0
        return super().late(n_trials + after)

    def _all(self, fixed: str | None) -> Steps[None]:
        if self.controlled:
            judgement = yield from self.calibrate([BASE], fixed, again=lambda: not self.late(REPEATED))
        else:
            judgement = self.judgement = controls.unjudged(fixed)
        if not judgement.ok:
            raise controls.calibration_error(again=False)
        first = len(self.calibration)
        while len(self.blocks) < self.n_blocks and not self.left.stop and not self.late(len(self.arms)):
            index = first + len(self.blocks)
            yield NextBlock(arms=self.arms, index=index, phase="confirm", needed=(BASE,), whole=True)
        ratios = log_ratios([*self.calibration, *self.blocks], IDENTICAL, judgement.statistic)
        if judgement.controls:
            self.controls = [*judgement.controls, *controls.late_controls(ratios)]
