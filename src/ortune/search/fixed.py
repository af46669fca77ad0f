"""The fixed schedule: a calibration, then so many blocks of all arms, decided beforehand. For diagnose and history."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.records import Block, Control
from ortune.search import controls
from ortune.search.blocks import BASE, IDENTICAL, log_ratios
from ortune.search.controls import CALIBRATION_BLOCKS
from ortune.search.phases import FIXED_TIMES
from ortune.search.schedule import NextBlock, Schedule, Standing, Steps

LEAST_BLOCKS, MOST_BLOCKS = 9, 40
CONTROLS = 3
"""Trials of a block of the calibration: the base, its double, and the one with a wait."""
REPEATED = controls.LEAST_BLOCKS * CONTROLS
"""Trials of the shortest calibration, for which there must be time where the first one failed."""


def least_trials(n_arms: int) -> int:
    """Trials of a calibration and the fewest blocks after it, of so many arms."""
    return CALIBRATION_BLOCKS * CONTROLS + LEAST_BLOCKS * n_arms


def blocks_within(left_ns: float, n_arms: int, trial_ns: float) -> int:
    """Blocks after the calibration that the time left holds, 9 to 40."""
    return max(LEAST_BLOCKS, min(MOST_BLOCKS, int(left_ns / (n_arms * trial_ns * FIXED_TIMES))))


class Fixed(Schedule):
    """Every arm beside the base and its double, as often as was said before; a stop ends it with the block that runs.

    Attributes:
        arms: Of the blocks after the calibration, the base first and its double last.
        n_blocks: How many of them; set before the first one, as the calibration says how long trials are.
        blocks: Those that ran.
        controls: What the calibration and all blocks together say of the machine.
    """

    def __init__(self, arms: Sequence[str], fixed: str | None, n_blocks: int = LEAST_BLOCKS) -> None:
        self.arms = (BASE, *arms, IDENTICAL)
        self.n_blocks = n_blocks
        self.blocks: list[Block] = []
        self.controls: list[Control] = []
        self._n_told = 0
        self.begin(self._all(fixed))

    @property
    def standing(self) -> Standing:
        """How far it is."""
        calibrating = self.judgement is None
        return Standing(
            n_blocks=self._n_told if calibrating else len(self.blocks),
            most_blocks=CALIBRATION_BLOCKS if calibrating else self.n_blocks,
            live=self.arms,
        )

    def note(self, block: Block, took_ns: int) -> None:
        """Counts it."""
        self._n_told += 1
        if block.phase == "confirm":
            self.blocks.append(block)

    def _all(self, fixed: str | None) -> Steps[None]:
        judgement = yield from self.calibrate([BASE], fixed, again=lambda: not self.late(REPEATED))
        if not judgement.ok:
            raise controls.failed(again=False)
        first = len(self.calibration)
        n_arms = len(self.arms)
        # Without controls nothing is claimed, and so nothing is measured.
        while len(self.blocks) < self.n_blocks and judgement.controls:
            if self.left.stop or self.late(n_arms):
                break
            index = first + len(self.blocks)
            yield NextBlock(arms=self.arms, index=index, phase="confirm", needed=(BASE,), whole=True)
        ratios = log_ratios([*self.calibration, *self.blocks], IDENTICAL, judgement.estimand)
        self.controls = [*judgement.controls, *controls.late_controls(ratios)]
