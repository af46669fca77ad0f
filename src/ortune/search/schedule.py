"""Which block comes next: asked by whoever can run one, and told what it gave, in the manner of ask and tell.

A schedule decides from numbers alone. It holds no executor, clock or journal, so that it runs against a table of
nanoseconds in a test, and on whatever machine the block is run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from ortune.errors import Interrupted
from ortune.records import Block, Failed
from ortune.search import controls
from ortune.search.blocks import IDENTICAL, SPIKE

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLeft:
    """The part of a budget that is left when a schedule chooses its next block.

    Attributes:
        ns: Nanoseconds; negative after the end.
        stop: A stop was requested.
    """

    ns: float
    stop: bool = False

    def holds(self, n_trials: float, trial_ns: float, *, reserved_ns: float = 0.0) -> bool:
        """Return whether a number of trials fits, next to what is reserved for later stages."""
        return n_trials * trial_ns <= self.ns - reserved_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class NextBlock:
    """A block that is to be run.

    Attributes:
        arms: Arms of the block, the base first; the driver draws their order.
        index, phase: As the block has them.
        needed: Arms without whose trial the block does not count; None: all.
        alone: No two of its processes live at once.
        whole: A stop does not cut it.
    """

    arms: tuple[str, ...]
    index: int
    phase: Literal["calibration", "race", "confirm"]
    needed: tuple[str, ...] | None = None
    alone: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleProgress:
    """How far a schedule is.

    Attributes:
        n_blocks: Blocks that were told, dropped ones included.
        most_blocks: How many there will be at most; None if that is open.
        live: Arms that are measured on, the best first where that is known.
    """

    n_blocks: int
    most_blocks: int | None
    live: tuple[str, ...]


Steps: TypeAlias = Generator[NextBlock, Block | None, T]
"""A stage of a schedule: gives blocks to run, gets each as it ran, and None if it was not: then it decides anew."""


class Schedule(ABC):
    """A schedule whose decisions are written down as a generator.

    Attributes:
        left: As it was last said.
        judgement: What the calibration said, once it is through.
        calibration: Its blocks, those of one that failed among them.
        costs_ns: What a trial took in each block so far, hangs aside.
        kept_ns: Of the time left, what is for later stages: no block is requested that would use it.
    """

    left = BudgetLeft(ns=0.0)
    costs_ns: Sequence[float] = ()
    kept_ns: float = 0.0
    judgement: controls.Judgement | None = None
    calibration: Sequence[Block] = ()
    _steps: Steps[Any] | None = None
    _block: Block | None = None

    def begin(self, steps: Steps[Any]) -> None:
        """Ask for the blocks of a stage from now on."""
        self._steps, self._block = steps, None

    def ask(self, left: BudgetLeft) -> NextBlock | None:
        """Return the next block; None at the end. Asked again without an answer, it decides anew.

        Raises:
            MeasurementError: The controls failed, or the base cannot be measured.
            Interrupted: A stop was requested before there is any result.
        """
        assert self._steps is not None
        # Decisions fall here, where the time that is left is known; ``tell`` only takes notes.
        self.left, block, self._block = left, self._block, None
        try:
            return self._steps.send(block)
        except StopIteration:
            return None

    def tell(self, block: Block, took_ns: int) -> None:
        """Take note of a block that ran, and of what it took."""
        self._block = block
        # A hang is cut off at many times a trial: counted in, it would make the next one wait as long again.
        ends = [t.outcome for t in block.trials]
        hung = [end.elapsed_ns for end in ends if isinstance(end, Failed) and end.reason == "timeout"]
        self.costs_ns = [*self.costs_ns, (took_ns - sum(hung)) / max(1, len(ends) - len(hung))]
        self.note(block, took_ns)

    def late(self, n_trials: int) -> bool:
        """Return whether a block of so many trials would end too late if each took as long as those so far."""
        if not self.costs_ns:
            return False
        return not self.left.holds(n_trials, float(np.median(self.costs_ns)), reserved_ns=self.kept_ns)

    @abstractmethod
    def note(self, block: Block, took_ns: int) -> None:
        """What a block means for the standing."""

    @property
    @abstractmethod
    def standing(self) -> ScheduleProgress:
        """How far it is."""

    def calibrate(
        self,
        references: Sequence[str],
        fixed: str | None,
        *,
        also: Callable[[], Sequence[str]] = lambda: (),
        again: Callable[[], bool] = lambda: True,
    ) -> Steps[controls.Judgement]:
        """Nine blocks of the references and both controls, once repeated where the controls fail.

        Blocks may take longer than the pilot let expect. Then six are enough; with fewer nothing is judged, and the
        judgement has no controls.

        Args:
            references: Arms that are in every block.
            fixed: The statistic, where the objective says it.
            also: What takes its turns in the next block too, where there is time for it.
            again: Asked before they are repeated: whether there is time for it. Else their judgement is not ``ok``.

        Raises:
            MeasurementError: The controls failed twice, or the baseline cannot be measured.
            Interrupted: A stop was requested.
        """
        earlier: list[Block] = []
        failed: controls.Judgement | None = None
        needed = (*references, IDENTICAL, SPIKE)
        for _ in range(2):
            blocks: list[Block] = []
            while (n := sum(not b.dropped for b in blocks)) < controls.CALIBRATION_BLOCKS:
                if self.late(len(needed)):
                    break
                arms = (*needed, *also())
                index = len(earlier) + len(blocks)
                # Where the plans beside the controls would make this block late, or the fewest that a judgement
                # needs, the controls run alone: without them nothing that follows is a claim.
                after = max(0, controls.LEAST_BLOCKS - n - 1) * len(needed)
                block = yield NextBlock(
                    arms=needed if self.late(len(arms) + after) else arms,
                    index=index,
                    phase="calibration",
                    needed=needed,
                )
                if block is not None:
                    blocks.append(block)
                    controls.raise_if_base_fails([*earlier, *blocks], references)
                elif self.left.stop:
                    raise Interrupted("stopped before the control checks were done; there is no result yet")
            if n < controls.LEAST_BLOCKS:
                self.judgement, self.calibration = failed or controls.unjudged(fixed), [*earlier, *blocks]
                return self.judgement
            judgement = controls.judge(blocks, fixed)
            earlier += blocks if judgement.ok else controls.dropped(blocks)
            # A failed judgement is returned only where no time is left to repeat it; the caller then explores
            # or stops.
            if judgement.ok or (failed is None and not again()):
                self.judgement, self.calibration = judgement, earlier
                return judgement
            failed = judgement
        raise controls.failed(again=True)
