"""Two sides, raced block by block to a verdict: the loop behind ``compare``.

It sees outcomes and a clock, never ONNX Runtime, so that a fake executor tests it without waiting. The first nine
blocks carry the controls (an identical plan and a known wait) beside the new side; nothing is claimed unless they
hold.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ortune.errors import Interrupted
from ortune.records import Block, Comparison, Control, Failed, Gate
from ortune.search import controls
from ortune.search.blocks import (
    BASE,
    IDENTICAL,
    NEW,
    SPIKE,
    Execute,
    failures,
    log_ratios,
    run_block,
)
from ortune.search.controls import Judgement
from ortune.search.figures import WORDS
from ortune.stats import detect, evidence, intervals, pairs

DEAR_BLOCKS = 6  # the fewest blocks that an exact test can use
FAILURES_ALLOWED = 1  # the second failure of a side ends the comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How long to go on, and what counts.

    Attributes:
        budget_ns: All blocks together may take this long.
        max_blocks: Never more blocks than this, controls included.
        alpha: One minus the level of the interval.
        delta_ratio: Half-width of "equivalent", as a share.
        threshold_ratio: The regression that a gate must find, as a share; None without a gate.
        control_every: One block in so many carries an identical arm after calibration.
        estimand: Fixed by the objective, or None for what the calibration finds steadiest.
        wait_ratio: The wait that the spike-in control adds.
    """

    budget_ns: int
    max_blocks: int = 60
    alpha: float = 0.05
    delta_ratio: float = 0.01
    threshold_ratio: float | None = None
    control_every: int = 10
    estimand: str | None = None
    wait_ratio: float = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """What the budget holds, decided before the first block.

    Attributes:
        sequential: Watched after every block; False is a fixed number of blocks and an exact test.
        n_blocks: Blocks at most (sequential) or exactly (fixed).
    """

    sequential: bool
    n_blocks: int


def design(trial_ns: float, rules: Rules, spent_ns: float = 0.0) -> Design | None:
    """How many blocks the budget holds at that cost a trial; None when it holds not even six."""
    full = 4 * trial_ns
    budget_ns = rules.budget_ns - spent_ns
    if budget_ns < DEAR_BLOCKS * full:
        return None
    later = max(0.0, budget_ns - controls.CALIBRATION_BLOCKS * full) / (2.2 * trial_ns)
    n = min(rules.max_blocks, int(controls.CALIBRATION_BLOCKS + later))
    # The sequential test needs about ten blocks to say anything; where few more fit, an exact test says more.
    if budget_ns >= controls.CALIBRATION_BLOCKS * full and n >= 14:
        return Design(sequential=True, n_blocks=n)
    few = min(rules.max_blocks, controls.CALIBRATION_BLOCKS, int(budget_ns / full))
    return Design(sequential=False, n_blocks=few)


@dataclass(slots=True, kw_only=True)
class Duel:
    """The state of a running comparison; ``ended`` says why it stopped."""

    estimand: str = "median"
    blocks: list[Block] = field(default_factory=list)
    controls: list[Control] = field(default_factory=list)
    calibrations: int = 0
    prior_scale: float | None = None
    scale: float = 0.0
    ended: Literal["", "verdict", "blocks", "budget", "stopped", "failed"] = ""
    failed: Failed | None = None
    _series: dict[tuple[str, str, int], tuple[int, np.ndarray]] = field(default_factory=dict)

    def ratios(self, arm: str) -> np.ndarray:
        """log(arm / base) of the blocks that count; each block is read once, however often this is asked."""
        key = arm, self.estimand, self.calibrations
        seen, values = self._series.get(key, (0, np.empty(0)))
        values = np.concatenate([values, log_ratios(self.blocks[seen:], arm, self.estimand)])
        self._series[key] = len(self.blocks), values
        return values


def run(
    execute: Execute,
    rules: Rules,
    plan: Design,
    *,
    rng: random.Random,
    clock: Callable[[], int],
    stop: Callable[[], bool] = lambda: False,
    on_block: Callable[[Duel, Block], None] = lambda duel, block: None,
    calibrated: Callable[[Judgement, list[Block]], None] = lambda judgement, blocks: None,
    started_ns: int | None = None,
) -> Duel:
    """Runs blocks until a verdict, the last block, the end of the budget, or a stop.

    Raises:
        MeasurementError: The controls failed twice, or the baseline cannot be measured.
        Interrupted: Stopped before the controls were through.
    """
    duel = Duel()
    start = clock() if started_ns is None else started_ns
    for attempt in (1, 2):
        judgement = _calibrate(duel, execute, rules, plan, rng, stop, on_block)
        if duel.failed or judgement:
            break
        if attempt == 2 or clock() - start > 0.8 * rules.budget_ns:
            raise controls.failed_twice()
    if duel.failed:
        duel.ended = "failed"
        return duel
    if not plan.sequential:
        duel.ended = "blocks"
        return duel
    assert judgement is not None
    calibrated(judgement, duel.blocks)
    block_ns = 0
    while not duel.ended:
        n = len(duel.ratios(NEW))
        if decided(duel, rules, plan):
            duel.ended = "verdict"
        elif n >= rules.max_blocks or len(duel.blocks) >= 2 * rules.max_blocks:
            duel.ended = "blocks"
        elif clock() - start + block_ns > rules.budget_ns:
            duel.ended = "budget"
        elif stop():
            duel.ended = "stopped"
        else:
            began = clock()
            arms = [BASE, NEW, IDENTICAL] if len(duel.blocks) % rules.control_every == 0 else [BASE, NEW]
            if not _one_block(duel, execute, arms, "race", rng, stop, on_block):
                duel.ended = "stopped" if stop() else "failed"
            # The dearest block so far is what the next may cost, so that the promise is kept.
            block_ns = max(block_ns, clock() - began)
    duel.controls += controls.late_controls(duel.ratios(IDENTICAL))
    return duel


def decided(duel: Duel, rules: Rules, plan: Design) -> bool:
    """Whether the evidence answers the question: the gate's where there is one, else the verdict's."""
    d = duel.ratios(NEW)
    if rules.threshold_ratio is not None:
        answer = gate(duel, rules, plan).answer
        # The one-sided proof can come first; a gate that fails should not stand beside "no difference shown".
        return answer == "pass" or (answer == "fail" and _verdict(duel, rules, d) == "slower")
    # The interval costs a hundred times what three of its points cost, and it is asked for after every block.
    limit = -np.log(rules.alpha)
    none, low, high = (
        evidence.log_evidence(d, theta, duel.prior_scale) >= limit
        for theta in (0.0, np.log1p(-rules.delta_ratio), np.log1p(rules.delta_ratio))
    )
    if not (none or (low and high)):
        return False
    verdict = _verdict(duel, rules, d)
    if verdict == "equivalent":
        # "No difference" is worth what could have been seen: a few more blocks where that is more than the verdict's
        # own width.
        return _smallest(duel, rules, plan, d) <= rules.delta_ratio
    return verdict != "inconclusive"


def _smallest(duel: Duel, rules: Rules, plan: Design, d: np.ndarray) -> float:
    """The smallest effect that the blocks so far could have found."""
    return detect.smallest_effect(
        duel.scale,
        len(d),
        rules.alpha,
        method="sequence" if plan.sequential else "sign-flip",
        prior_scale=duel.prior_scale,
    )


def _verdict(duel: Duel, rules: Rules, d: np.ndarray) -> intervals.Verdict:
    interval = evidence.confidence_sequence(d, rules.alpha, duel.prior_scale)
    return intervals.verdict(interval, rules.delta_ratio)


def gate(duel: Duel, rules: Rules, plan: Design, undecided: Literal["pass", "fail"] = "pass") -> Gate:
    """fail: a regression beyond the threshold is proven; pass: it is ruled out; else undecided."""
    assert rules.threshold_ratio is not None
    theta = float(np.log1p(rules.threshold_ratio))
    d = duel.ratios(NEW)
    answer: Literal["pass", "fail", "undecided"] = "undecided"
    if plan.sequential:
        limit = -np.log(rules.alpha)
        if evidence.log_evidence_above(d, theta, duel.prior_scale) >= limit:
            answer = "fail"
        elif evidence.log_evidence_below(d, theta, duel.prior_scale) >= limit:
            answer = "pass"
    else:
        interval = pairs.sign_flip_interval(d, 1 - rules.alpha)
        answer = "fail" if interval.low > theta else "pass" if interval.high < theta else "undecided"
    provable = detect.smallest_effect(
        duel.scale,
        plan.n_blocks,
        rules.alpha,
        method="sequence" if plan.sequential else "sign-flip",
        prior_scale=duel.prior_scale,
    )
    return Gate(
        threshold_ratio=rules.threshold_ratio,
        answer=answer,
        undecided_counts_as=undecided,
        provable_ratio=provable if np.isfinite(provable) else None,
    )


def conclude(duel: Duel, rules: Rules, plan: Design) -> Comparison:
    """The comparison that the blocks support. Guards are added by the caller, who has the trials."""
    d = duel.ratios(NEW)
    n_dropped = sum(bool(b.dropped) for b in duel.blocks)
    p = e_value = None
    if plan.sequential:
        interval = evidence.confidence_sequence(d, rules.alpha, duel.prior_scale)
        e_value = float(np.exp(min(700.0, evidence.log_evidence(d, 0.0, duel.prior_scale))))
    else:
        interval = pairs.sign_flip_interval(d, 1 - rules.alpha)
        p = pairs.sign_flip(d)
    verdict = intervals.verdict(interval, rules.delta_ratio)
    return Comparison(
        estimand=WORDS[duel.estimand],
        ratio=interval.ratio,
        ratio_low=interval.ratio_low,
        ratio_high=interval.ratio_high if np.isfinite(interval.ratio_high) else None,
        level=interval.level,
        method="confidence sequence" if plan.sequential else "sign-flip",
        n_blocks=len(d),
        n_dropped=n_dropped,
        evidence=e_value,
        p=p,
        smallest_effect_ratio=detect.honest(_smallest(duel, rules, plan, d), interval),
        phase="race",
        verdict=verdict,
        more_blocks=(
            detect.more_blocks(d, rules.delta_ratio, rules.alpha, duel.prior_scale)
            if verdict == "inconclusive"
            else None
        ),
    )


def _calibrate(
    duel: Duel,
    execute: Execute,
    rules: Rules,
    plan: Design,
    rng: random.Random,
    stop: Callable[[], bool],
    on_block: Callable[[Duel, Block], None],
) -> Judgement | None:
    """Fixed number of blocks with both controls; None when they do not hold. Sets estimand and scales."""
    duel.calibrations += 1
    first = len(duel.blocks)
    wanted = plan.n_blocks if not plan.sequential else controls.CALIBRATION_BLOCKS
    arms = [BASE, NEW, IDENTICAL, SPIKE]
    while sum(not b.dropped for b in duel.blocks[first:]) < wanted:
        if not _one_block(duel, execute, arms, "calibration", rng, stop, on_block):
            if stop():
                raise Interrupted("stopped before the controls were through; nothing can be said yet")
            return None
    mine = duel.blocks[first:]
    judgement = controls.judge(mine, rules.estimand)
    duel.controls = list(judgement.controls)  # of a calibration that was repeated, the fresh one counts
    if not judgement.ok:
        duel.blocks[first:] = controls.dropped(mine)
        return None
    duel.estimand, duel.prior_scale = judgement.estimand, judgement.scale
    duel.scale = _scale(duel)
    return judgement


def _one_block(
    duel: Duel,
    execute: Execute,
    arms: list[str],
    phase: Literal["calibration", "race"],
    rng: random.Random,
    stop: Callable[[], bool],
    on_block: Callable[[Duel, Block], None],
) -> bool:
    """Runs and records one block. False when stopped or when a side failed too often."""
    block = run_block(execute, arms, rng, len(duel.blocks), phase, stop)
    if block is None:
        return False
    duel.blocks.append(block)
    if not block.dropped and phase == "race":
        duel.scale = _scale(duel)
    on_block(duel, block)
    controls.raise_if_base_fails(duel.blocks)
    failed = failures(duel.blocks, NEW)
    if len(failed) > FAILURES_ALLOWED:
        duel.failed = failed[-1]
        return False
    return True


def _scale(duel: Duel) -> float:
    """Robust scale of the blocks' log ratios, both kinds together: each about its own middle."""
    new = duel.ratios(NEW)
    return intervals.robust_scale(new) if len(new) >= 5 else (duel.prior_scale or 0.0)
