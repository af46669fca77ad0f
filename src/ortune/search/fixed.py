"""A schedule with a calibration and a fixed number of blocks of all arms, for ``diagnose`` and ``history``."""

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
"""Minimum number of blocks without controls; fewer give no interval."""
CONTROLS = 3
"""Number of trials in a calibration block: the base, its copy, and the base with a wait."""
REPEATED = controls.LEAST_BLOCKS * CONTROLS
"""Number of trials of the shortest calibration."""


def least_trials(n_changes: int, *, controlled: bool = True) -> int:
    """Return the number of trials of the shortest session with ``n_changes`` changes, with or without controls."""
    if not controlled:
        return LEAST_EXPLORED * (1 + n_changes)
    # Example: one change. 18 + 9 x 3 = 45 trials.
    return REPEATED + LEAST_BLOCKS * (2 + n_changes)


def blocks_within(trials: float, n_arms: int, least: int = LEAST_BLOCKS) -> int:
    """Return the number of blocks that fit in a number of trials, limited to between ``least`` and 40."""
    return max(least, min(MOST_BLOCKS, int(trials / (n_arms * FIXED_TIMES))))


class Fixed(Schedule):
    """Runs all arms in a fixed number of blocks with the base and its copy; a stop ends the schedule after a block.

    Without controls, because they were not requested or did not fit, the blocks support no claim.

    Attributes:
        arms: Arms of the blocks after the calibration: the base first, and with controls, its copy last.
        n_blocks: Number of blocks after the calibration, which may be changed until the first of these, since the
            calibration shows how long trials are.
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
        """Completed and planned blocks of the calibration or of the comparison, and the arms."""
        calibrating = self.judgement is None
        return ScheduleProgress(
            n_blocks=self._n_told if calibrating else len(self.blocks),
            most_blocks=CALIBRATION_BLOCKS if calibrating else self.n_blocks,
            live=self.arms,
        )

    def note(self, block: Block, took_ns: int) -> None:
        """Count a block, and add it to ``blocks`` unless it is of the calibration."""
        self._n_told += 1
        if block.phase == "confirm":
            self.blocks.append(block)

    def late(self, n_trials: int) -> bool:
        """Return whether a block would end too late, or during calibration, whether too few would fit afterwards."""
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
