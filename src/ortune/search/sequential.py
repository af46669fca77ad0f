"""The sequential schedule: new sides beside one base, block by block until each is decided. ``compare`` runs it.

The first nine blocks carry the controls (an identical plan and a known wait) beside the new sides; nothing is claimed
unless they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ortune.errors import Interrupted
from ortune.records import Block
from ortune.search import controls
from ortune.search.blocks import BASE, IDENTICAL, NEW, failures
from ortune.search.duel import CONTROLS, Design, Duel, Rules, decided, least_blocks
from ortune.search.figures import LATENCIES
from ortune.search.schedule import NextBlock, Schedule, Standing, Steps

FAILURES_ALLOWED = 1
"""Of a side: the second ends its comparison."""
REPEATED_WITHIN = 0.8
"""Of the budget: a calibration that failed later is not repeated."""


class Sequential(Schedule):
    """Blocks until a verdict on every new side, the last block, the end of the budget, or a stop.

    Attributes:
        state: What was measured; ``state.ended`` says why it stopped.
    """

    def __init__(self, rules: Rules, design: Design, arms: Sequence[str] = (NEW,)) -> None:
        self.rules, self.design = rules, design
        self.state = Duel(arms=tuple(arms), live=list(arms))
        self._took_ns = 0
        self.begin(self._blocks())

    @property
    def standing(self) -> Standing:
        """How far it is."""
        state = self.state
        return Standing(
            n_blocks=len(state.blocks), most_blocks=self.design.n_blocks, live=(BASE, *state.live)
        )

    def note(self, block: Block, took_ns: int) -> None:
        """A side that failed too often is out."""
        state = self.state
        state.blocks.append(block)
        self._took_ns = took_ns
        for arm in list(state.live):
            failed = failures(state.blocks, arm)
            if len(failed) > FAILURES_ALLOWED:
                state.failed[arm] = failed[-1]
                state.live.remove(arm)
        if not any(trial.arm in state.failed for trial in block.trials):
            state.block_ns.append(took_ns * 2 / len(block.trials))

    def _next(self, phase: Literal["calibration", "race"], others: Sequence[str] = ()) -> NextBlock:
        # One side's failure is no matter to the others of a field; the one side of a duel is what its blocks are for.
        needed = None if len(self.state.arms) == 1 else (BASE, *CONTROLS)
        arms = (BASE, *self.state.live, *others)
        return NextBlock(arms=arms, index=len(self.state.blocks), phase=phase, needed=needed)

    def _blocks(self) -> Steps[None]:
        state, rules, design = self.state, self.rules, self.design
        for attempt in (1, 2):
            yield from self._controls()
            if not state.live or self.judgement is not None or not design.controlled:
                break
            spent_ns = rules.budget_ns - self.left.ns
            if attempt == 2 or spent_ns > REPEATED_WITHIN * rules.budget_ns:
                raise controls.failed(again=attempt == 2)
        if not state.live:
            state.ended = "failed"
        elif design.sequential:
            yield from self._until_decided()
        else:
            yield from self._up_to_the_least()
            state.ended = "stopped" if self.left.stop and not design.controlled else "blocks"

    def _controls(self) -> Steps[None]:
        """A fixed number of blocks with both controls; where these hold, sets estimand, scale and judgement."""
        state, design = self.state, self.design
        state.calibrations += 1
        first = len(state.blocks)
        wanted = controls.CALIBRATION_BLOCKS if design.sequential else design.n_blocks
        while sum(not b.dropped for b in state.blocks[first:]) < wanted:
            block = yield self._next("calibration", CONTROLS if design.controlled else ())
            if block is None:
                if self.left.stop:
                    raise Interrupted("stopped before the control checks were done; there is no result yet")
                continue
            controls.raise_if_base_fails(state.blocks)
            if not state.live:
                return
        blocks = state.blocks[first:]
        if not design.controlled:
            state.estimand = self.rules.estimand or LATENCIES[0]
            return
        judgement = controls.judge(blocks, self.rules.estimand)
        state.controls = list(judgement.controls)  # of a calibration that was repeated, the fresh one counts
        if not judgement.ok:
            state.blocks[first:] = controls.dropped(blocks)
            return
        state.estimand, state.prior_scale = judgement.estimand, judgement.scale
        self.judgement, self.calibration = judgement, blocks

    def _until_decided(self) -> Steps[None]:
        state, rules = self.state, self.rules
        dearest_ns = 0
        while not state.ended:
            # A side that is decided stands in no further block: its claim holds from the block that decided it.
            state.live = [arm for arm in state.live if not decided(state, rules, self.design, arm)]
            n = max((len(state.ratios(arm)) for arm in state.live), default=0)
            if not state.live:
                state.ended = "failed" if len(state.failed) == len(state.arms) else "verdict"
            elif n >= rules.max_blocks or len(state.blocks) >= 2 * rules.max_blocks:
                state.ended = "blocks"
            elif dearest_ns > self.left.ns:
                state.ended = "budget"
            elif self.left.stop:
                state.ended = "stopped"
            else:
                controlled = len(state.blocks) % rules.control_every == 0
                block = yield self._next("race", [IDENTICAL] if controlled else ())
                if block is not None:
                    controls.raise_if_base_fails(state.blocks)
                    # The dearest block so far is what the next may cost, so that the promise is kept.
                    dearest_ns = max(dearest_ns, self._took_ns)
        state.controls += controls.late_controls(state.ratios(IDENTICAL))

    def _up_to_the_least(self) -> Steps[None]:
        """Up to the fewest blocks of an exact test where the time lasts: trials may be cheaper than the first was.

        When it ends follows from the time that both sides take together, which is the same whichever of them is the
        faster one: the exact test holds.
        """
        state, rules = self.state, self.rules
        if self.design.controlled:
            return
        least = min(rules.max_blocks, least_blocks(rules.share(len(state.arms))))
        # The dearest so far is what the next one may cost.
        while (
            state.live
            and sum(not b.dropped for b in state.blocks) < least
            and len(state.blocks) < 2 * least
            and not self.left.stop
            and max(state.block_ns) * (1 + len(state.live)) / 2 <= self.left.ns
        ):
            if (yield self._next("calibration")) is not None:
                controls.raise_if_base_fails(state.blocks)
