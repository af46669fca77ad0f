"""The sequential schedule: new sides and one base, block by block until each side is decided. Used by ``compare``.

The first nine blocks include the controls (an identical plan and an injected wait) in addition to the new sides;
nothing is claimed unless they pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from ortune.errors import Interrupted
from ortune.records import Block
from ortune.search import controls
from ortune.search.blocks import BASE, IDENTICAL, NEW, failures
from ortune.search.duel import CONTROLS, Design, Duel, Rules, least_blocks
from ortune.search.figures import LATENCIES
from ortune.search.schedule import NextBlock, Schedule, ScheduleProgress, Steps

FAILURES_ALLOWED = 1
"""Number of failures of a side that are allowed; one more ends the side's comparison."""


class Sequential(Schedule):
    """Runs blocks until every new side is decided, the maximum number of blocks, the end of the budget, or a stop.

    Attributes:
        state: State of the comparison; ``state.ended`` is the reason that the schedule stopped.
    """

    def __init__(self, rules: Rules, design: Design, arms: Sequence[str] = (NEW,)) -> None:
        self.state = Duel(rules=rules, design=design, arms=tuple(arms), live=list(arms))
        self._took_ns = 0
        self.begin(self._blocks())

    @property
    def standing(self) -> ScheduleProgress:
        """Number of completed blocks, their maximum, and the arms without a verdict so far."""
        state = self.state
        return ScheduleProgress(
            n_blocks=len(state.blocks), most_blocks=state.design.n_blocks, live=(BASE, *state.live)
        )

    def note(self, block: Block, took_ns: int) -> None:
        """Record a block, and remove sides that failed too often."""
        state = self.state
        state.blocks.append(block)
        self._took_ns = took_ns
        for arm in list(state.live):
            failed = failures(state.blocks, arm)
            if len(failed) > FAILURES_ALLOWED:
                state.failed[arm] = failed[-1]
                state.live.remove(arm)
        if not any(trial.arm in state.failed for trial in block.trials):
            state.block_ns.append(took_ns * 2 / len(block.trials))  # scaled to two trials

    def _next(self, phase: Literal["calibration", "race"], others: Sequence[str] = ()) -> NextBlock:
        # A failed side does not invalidate a block for several other sides, but does if it is the only one.
        needed = None if len(self.state.arms) == 1 else (BASE, *CONTROLS)
        arms = (BASE, *self.state.live, *others)
        return NextBlock(arms=arms, index=len(self.state.blocks), phase=phase, needed=needed)

    def _blocks(self) -> Steps[None]:
        state = self.state
        for again in (False, True):
            yield from self._controls()
            if not state.live or self.judgement is not None or not state.design.controlled:
                break
            # Repeated once, since a disturbance is often over by then; repeating until they pass would make
            # the controls meaningless.
            if again or self._too_dear(0):
                raise controls.calibration_error(again=again)
        if not state.live:
            state.ended = "failed"
        elif state.design.sequential:
            yield from self._until_decided()
        else:
            yield from self._up_to_the_least()
            state.ended = "stopped" if self.left.stop and not state.design.controlled else "blocks"

    def _controls(self) -> Steps[None]:
        """Yield a fixed number of blocks with both controls; if they pass, set statistic, scale and judgement.

        If blocks take longer than expected from the pilot, none is started that would end too late. If the minimum
        number of blocks of an exact test does not fit with the controls, the controls are omitted, since the test has
        priority over its checks.
        """
        state, design = self.state, self.state.design
        state.calibrations += 1
        first = len(state.blocks)
        wanted = controls.CALIBRATION_BLOCKS if design.sequential else design.n_blocks
        while (n := sum(not b.dropped for b in state.blocks[first:])) < wanted:
            # The next block is estimated by the median, since a single slow block does not predict it;
            # ``_too_dear`` covers all blocks that a test still needs, at the lowest cost so far.
            late = self._next_ns(CONTROLS if design.controlled else ()) > self.left.ns
            if design.controlled and n < self._least and (late or self._too_dear(n)):
                if state.calibrations > 1:
                    raise controls.calibration_error(again=False)
                # The sequential test gets its first scale from the controls; without them, use the exact test
                # with a fixed number.
                state.design = design = replace(design, sequential=False, controlled=False)
                late = self._next_ns() > self.left.ns
            if late and state.blocks:
                break
            block = yield self._next("calibration", CONTROLS if design.controlled else ())
            if block is None:
                if self.left.stop:
                    raise Interrupted("stopped before the control checks were done; there is no result yet")
                continue
            controls.raise_if_base_fails(state.blocks)
            if not state.live:
                return
        if not design.controlled:
            state.statistic = state.rules.statistic or LATENCIES[0]
            return
        blocks = state.blocks[first:]
        # Judged after a fixed number of blocks; repeated checks until the controls pass would always pass.
        judgement = controls.judge(blocks, state.rules.statistic)
        state.controls = list(judgement.controls)  # after a repeated calibration, only the second one counts
        if not judgement.ok:
            state.blocks[first:] = controls.mark_dropped(blocks)
            return
        state.statistic, state.prior_scale = judgement.statistic, judgement.scale
        self.judgement, self.calibration = judgement, blocks

    def _next_ns(self, others: Sequence[str] = ()) -> float:
        """Return the expected duration of the next block, from the median so far; 0 before the first block."""
        arms = 1 + len(self.state.live) + len(others)
        # ``block_ns`` is scaled to two trials.
        return float(np.median(self.state.block_ns)) * arms / 2 if self.state.block_ns else 0.0

    def _too_dear(self, n_blocks: int) -> bool:
        """Return whether the blocks of an exact test with controls exceed the budget, even at the lowest cost."""
        # ``block_ns`` is scaled to two trials, so half of it is one arm.
        arms = 1 + len(self.state.live) + len(CONTROLS)
        return (self._least - n_blocks) * min(self.state.block_ns, default=0.0) * arms / 2 > self.left.ns

    @property
    def _least(self) -> int:
        """Minimum number of blocks of an exact test."""
        return min(self.state.rules.max_blocks, least_blocks(self.state.side_alpha))

    def _until_decided(self) -> Steps[None]:
        state, rules = self.state, self.state.rules
        dearest_ns = self._next_ns()
        while not state.ended:
            # A decided side is not in further blocks: its claim holds from the block that decided it.
            state.live = [arm for arm in state.live if not state.decided(arm)]
            n = max((len(state.ratios(arm)) for arm in state.live), default=0)
            if not state.live:
                state.ended = "failed" if len(state.failed) == len(state.arms) else "verdict"
            # Dropped blocks do not count in n; the second limit ends a session in which most blocks are
            # dropped.
            elif n >= rules.max_blocks or len(state.blocks) >= 2 * rules.max_blocks:
                state.ended = "blocks"
            elif dearest_ns > self.left.ns:
                state.ended = "budget"
            elif self.left.stop:
                state.ended = "stopped"
            else:
                # Few, so they cost little; tested once at the end with their own error rate, so they do not
                # affect the test.
                controlled = len(state.blocks) % rules.control_every == 0
                block = yield self._next("race", [IDENTICAL] if controlled else ())
                if block is not None:
                    controls.raise_if_base_fails(state.blocks)
                    # The next block may take as long as the slowest so far, so the budget is kept.
                    dearest_ns = max(dearest_ns, self._took_ns)
        state.controls += controls.late_controls(state.ratios(IDENTICAL))

    def _up_to_the_least(self) -> Steps[None]:
        """Yield blocks up to the minimum of an exact test while there is time, since trials may become faster.

        The exact test remains valid, since the end depends on the total time of both sides, which does not depend on
        which side is faster.
        """
        state = self.state
        if state.design.controlled or not state.blocks:
            return
        # The next block may take as long as the slowest so far.
        while (
            state.live
            and sum(not b.dropped for b in state.blocks) < self._least
            and len(state.blocks) < 2 * self._least
            and not self.left.stop
            and max(state.block_ns, default=0.0) * (1 + len(state.live)) / 2 <= self.left.ns
        ):
            if (yield self._next("calibration")) is not None:
                controls.raise_if_base_fails(state.blocks)
