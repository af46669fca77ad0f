"""The ask-and-tell interface of schedules: ``ask`` returns the next block to run, and ``tell`` records its result.

A schedule decides only by numbers. It has no executor, clock or journal, so that a test can run it with a table of
durations, and blocks can run on any machine.
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
        ns: Nanoseconds left; negative if the budget is exceeded.
        stop: Whether a stop was requested.
    """

    ns: float
    stop: bool = False

    def holds(self, n_trials: float, trial_ns: float, *, reserved_ns: float = 0.0) -> bool:
        """Return whether a number of trials fits before the time reserved for later stages."""
        return n_trials * trial_ns <= self.ns - reserved_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class NextBlock:
    """The next block that a schedule requests.

    Attributes:
        arms: Arms of the block, the base first; the driver randomizes their order.
        index, phase: Index and phase of the block.
        needed: Arms without which the block does not count; None for all.
        alone: Whether the block's processes run one at a time.
        whole: Whether the block is completed after a stop request.
    """

    arms: tuple[str, ...]
    index: int
    phase: Literal["calibration", "race", "confirm"]
    needed: tuple[str, ...] | None = None
    alone: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleProgress:
    """The progress of a schedule.

    Attributes:
        n_blocks: Number of blocks so far, including dropped blocks.
        most_blocks: Maximum number of blocks; None if unknown.
        live: Arms that are still measured, best first if known.
    """

    n_blocks: int
    most_blocks: int | None
    live: tuple[str, ...]


Steps: TypeAlias = Generator[NextBlock, Block | None, T]
"""A stage of a schedule: yields the blocks to run, and receives each block afterwards, or None if it did not run."""


class Schedule(ABC):
    """A schedule whose decisions are written as a generator.

    Attributes:
        left: Budget left at the last ``ask``.
        judgement: Result of the calibration; None before it is complete.
        calibration: Blocks of the calibration, including blocks of a failed calibration.
        costs_ns: Duration per trial of each block so far, without hangs.
        kept_ns: Part of the time left that is reserved for later stages.
    """

    left = BudgetLeft(ns=0.0)
    costs_ns: Sequence[float] = ()
    kept_ns: float = 0.0
    judgement: controls.Judgement | None = None
    calibration: Sequence[Block] = ()
    _steps: Steps[Any] | None = None
    _block: Block | None = None

    def begin(self, steps: Steps[Any]) -> None:
        """Begin a stage; ``ask`` returns its blocks from now on."""
        self._steps, self._block = steps, None

    def ask(self, left: BudgetLeft) -> NextBlock | None:
        """Return the next block; None at the end. If called again without ``tell``, it decides anew.

        Raises:
            MeasurementError: The controls failed, or the base cannot be measured.
            Interrupted: A stop was requested before there is any result.
        """
        assert self._steps is not None
        # Decisions are made here, where the time left is known; ``tell`` only records.
        self.left, block, self._block = left, self._block, None
        try:
            return self._steps.send(block)
        except StopIteration:
            return None

    def tell(self, block: Block, took_ns: int) -> None:
        """Record a block that ran, and its duration in nanoseconds."""
        self._block = block
        # A hang is terminated after many times a trial's duration, so counting it would raise the limit for
        # the next one.
        ends = [t.outcome for t in block.trials]
        hung = [end.elapsed_ns for end in ends if isinstance(end, Failed) and end.reason == "timeout"]
        self.costs_ns = [*self.costs_ns, (took_ns - sum(hung)) / max(1, len(ends) - len(hung))]
        self.note(block, took_ns)

    def late(self, n_trials: int) -> bool:
        """Return whether a block with a number of trials would end too late, by the median duration so far."""
        if not self.costs_ns:
            return False
        return not self.left.holds(n_trials, float(np.median(self.costs_ns)), reserved_ns=self.kept_ns)

    @abstractmethod
    def note(self, block: Block, took_ns: int) -> None:
        """Record a block that ran; called by ``tell``."""

    @property
    @abstractmethod
    def standing(self) -> ScheduleProgress:
        """Completed and planned blocks, and the arms that still take part."""

    def calibrate(
        self,
        references: Sequence[str],
        fixed: str | None,
        *,
        also: Callable[[], Sequence[str]] = lambda: (),
        again: Callable[[], bool] = lambda: True,
    ) -> Steps[controls.Judgement]:
        """Yield nine blocks of the references and both controls, and repeat them once if the controls fail.

        If blocks take longer than expected from the pilot, six are enough; with fewer, the result has no controls.

        Args:
            references: Arms that are in every block.
            fixed: The statistic, if the objective determines it; otherwise None.
            also: Returns further arms for the next block, which are included if there is time.
            again: Returns whether there is time to repeat failed controls. If not, a result that is not ``ok`` is
                returned.

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
                # If further plans would make this block late, or the fewest blocks with controls, the
                # controls run by themselves: without them no later result is a claim.
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
            earlier += blocks if judgement.ok else controls.mark_dropped(blocks)
            # A failed result is returned only if there is no time to repeat the controls; the caller then
            # explores or stops.
            if judgement.ok or (failed is None and not again()):
                self.judgement, self.calibration = judgement, earlier
                return judgement
            failed = judgement
        raise controls.calibration_error(again=True)
