"""Compares new sides with one base: determines the number of blocks within a budget, and the verdicts.

Several new sides run in the same blocks until each is decided, and divide the error rate among them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ortune.records import Block, Comparison, Control, Failed, Gate
from ortune.search import controls
from ortune.search.blocks import IDENTICAL, NEW, SPIKE, log_ratios
from ortune.search.figures import WORDS
from ortune.search.phases import LEAST_OVERRUN_S, OVERRUN_SHARE
from ortune.stats import detect, evidence, intervals, multiplicity, pairs

CONTROLS = (IDENTICAL, SPIKE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Parameters of the verdict, and the maximum number of blocks.

    Attributes:
        max_blocks: Maximum number of blocks, including those with controls.
        alpha: One minus the confidence level, for all new sides together.
        delta_ratio: Half-width of the equivalence range, as a fraction.
        threshold_ratio: Regression that a gate must detect, as a fraction; None without a gate.
        control_every: After calibration, every ``control_every``-th block includes the A/A control.
        statistic: Statistic fixed by the objective; None to let the calibration choose.
    """

    max_blocks: int = 60
    alpha: float = 0.05
    delta_ratio: float = 0.01
    threshold_ratio: float | None = None
    control_every: int = 10
    statistic: str | None = None

    def share(self, n_new: int) -> float:
        """Return the ``alpha`` of each of ``n_new`` sides with which all intervals hold together (Bonferroni)."""
        return self.alpha / n_new


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The design of a comparison, decided before the first block.

    Attributes:
        sequential: Whether evidence is checked after every block; False for a fixed number of blocks and an exact test.
        n_blocks: Maximum (sequential) or exact (fixed) number of blocks.
        controlled: Whether the first blocks include the controls; without them, no gate passes.
    """

    sequential: bool
    n_blocks: int
    controlled: bool = True


def least_blocks(alpha: float) -> int:
    """Return the minimum number of blocks of an exact test, whose smallest p is 2 / 2**n."""
    # At 0.05 it is six: 2/2^5 is 0.063, and 2/2^6 is 0.031.
    return math.ceil(math.log2(2.0 / alpha))


def overrun_s(total_s: float) -> float:
    """Return the seconds by which a block may exceed a budget if there is no result without the block."""
    return max(OVERRUN_SHARE * total_s, LEAST_OVERRUN_S)


def design(trials: float, rules: Rules, n_new: int = 1, *, late_trials: float = 0.0) -> Design:
    """Return the design for a number of trials.

    If too few trials fit for a test with controls, or ``max_blocks`` is too small for any test, the controls are
    omitted, since the test has priority over its checks. If not even the minimum number of blocks fits, the blocks that
    fit are run and reported.

    Args:
        trials: Number of trials that fit in the time left.
        rules: Parameters of the verdict.
        n_new: Number of new sides.
        late_trials: Number of trials by which a single block may exceed the time; if it would exceed more, none runs.
    """
    full, plain = 1 + n_new + len(CONTROLS), 1 + n_new
    least = least_blocks(rules.share(n_new))
    if trials < least * full or rules.max_blocks < least:
        n = min(rules.max_blocks, int(trials / plain))
        least_one = 1 if plain <= trials + late_trials else 0
        return Design(sequential=False, n_blocks=max(least_one, n), controlled=False)
    # With a margin for the controls that one in ten later blocks includes. Example: one new side, 60 trials.
    # Nine controlled blocks of four leave 24, enough for 24 / 2.2 = 10.9 plain ones: 19 blocks, checked from
    # the first on.
    later = max(0.0, trials - controls.CALIBRATION_BLOCKS * full) / (1.1 * plain)
    n = min(rules.max_blocks, int(controls.CALIBRATION_BLOCKS + later))
    # The sequential test needs eight blocks to show anything; if few more fit, an exact test is more
    # powerful.
    if trials >= controls.CALIBRATION_BLOCKS * full and n >= least + 8:
        return Design(sequential=True, n_blocks=n)
    # In a fixed design every block includes the controls, so each has the full cost.
    few = min(rules.max_blocks, max(least, controls.CALIBRATION_BLOCKS), int(trials / full))
    return Design(sequential=False, n_blocks=few)


@dataclass(slots=True, kw_only=True)
class Duel:
    """The state of a running comparison.

    Attributes:
        design: The design, which is decided in advance; controls are removed if they are too slow for the time left.
        arms: The new sides.
        live: New sides that are neither decided nor failed.
        ended: Reason that the comparison stopped; "" while it runs.
        failed: Last failure of each side that failed too often.
        block_ns: Duration of each block so far, scaled to the base and one new side.
    """

    rules: Rules
    design: Design
    arms: tuple[str, ...] = (NEW,)
    live: list[str] = field(default_factory=list)
    statistic: str = "median"
    blocks: list[Block] = field(default_factory=list)
    controls: list[Control] = field(default_factory=list)
    calibrations: int = 0
    prior_scale: float | None = None
    ended: Literal["", "verdict", "blocks", "budget", "stopped", "failed"] = ""
    failed: dict[str, Failed] = field(default_factory=dict)
    block_ns: list[float] = field(default_factory=list)
    _series: dict[tuple[str, str, int], tuple[int, np.ndarray]] = field(default_factory=dict)

    @property
    def side_alpha(self) -> float:
        """One minus the confidence level of each new side."""
        return self.rules.share(len(self.arms))

    def ratios(self, arm: str) -> np.ndarray:
        """Return log(arm / base) of the blocks that were not dropped; cached, so that each block is evaluated once."""
        # A failed calibration drops blocks that were evaluated before, and the next one may choose another
        # statistic. Both are part of the key, so a stale series is never extended.
        key = arm, self.statistic, self.calibrations
        n_read, values = self._series.get(key, (0, np.empty(0)))
        values = np.concatenate([values, log_ratios(self.blocks[n_read:], arm, self.statistic)])
        self._series[key] = len(self.blocks), values
        return values

    def scale(self, arm: str) -> float:
        """Return the robust scale of a new side's log ratios, or of the controls' if the side has few."""
        d = self.ratios(arm)
        return intervals.robust_scale(d) if len(d) >= 5 else (self.prior_scale or 0.0)

    def decided(self, arm: str = NEW) -> bool:
        """Return whether the evidence decides the verdict, or with a gate, the gate's result."""
        d, alpha = self.ratios(arm), self.side_alpha
        if not len(d):
            return False
        if self.rules.threshold_ratio is not None:
            answer = self.gate(arm=arm).answer
            if answer == "undecided":
                return False
            interval = evidence.confidence_sequence(d, alpha, self.prior_scale)
            # The one-sided test can decide first, but a failed gate should not be reported with "inconclusive",
            # nor a passed one without an interval.
            slower = intervals.verdict(interval, self.rules.delta_ratio) == "slower"
            return slower if answer == "fail" else math.isfinite(interval.high)
        # The interval is a hundred times more expensive than three of its points, and this runs after every
        # block. A verdict needs 0 rejected (faster, slower), or both ends of the range of ±delta (equivalent).
        limit = -np.log(alpha)
        none, low, high = (
            evidence.log_evidence(d, theta, self.prior_scale) >= limit
            for theta in (0.0, np.log1p(-self.rules.delta_ratio), np.log1p(self.rules.delta_ratio))
        )
        if not (none or (low and high)):
            return False
        interval = evidence.confidence_sequence(d, alpha, self.prior_scale)
        return intervals.verdict(interval, self.rules.delta_ratio) != "inconclusive"

    def _method(self, arm: str, alpha: float) -> Literal["sequence", "sign-flip"]:
        """Return the test: exact for a fixed design, and for a sequential design that ended before its test applies."""
        n = len(self.ratios(arm))
        # Changing the test afterwards is valid here, since time or the number of blocks ended the session,
        # independent of the results.
        short = self.ended in ("budget", "blocks") and n < evidence.least_blocks(alpha)
        return "sequence" if self.design.sequential and not short else "sign-flip"

    def _missing(self, arm: str, alpha: float) -> int:
        """Return the number of further blocks that any test needs; 0 if there are enough."""
        exact = self._method(arm, alpha) == "sign-flip"
        least = least_blocks(alpha) if exact else evidence.least_blocks(alpha)
        return max(0, least - len(self.ratios(arm)))

    def _smallest(self, arm: str, n_blocks: int, alpha: float) -> float:
        """Return the smallest effect that ``n_blocks`` blocks can detect."""
        method = self._method(arm, alpha)
        return detect.smallest_effect(
            self.scale(arm), n_blocks, alpha, method=method, prior_scale=self.prior_scale
        )

    def gate(self, undecided: Literal["pass", "fail"] = "pass", *, arm: str = NEW) -> Gate:
        """Return the gate with its answer.

        The answer is "fail" for a proven regression beyond the threshold, "pass" if such a regression is ruled out,
        and otherwise "undecided". With too few blocks for any claim, and instead of "pass" or "undecided" without
        controls, it is "no-answer".
        """
        assert self.rules.threshold_ratio is not None
        theta = float(np.log1p(self.rules.threshold_ratio))
        d, alpha = self.ratios(arm), self.side_alpha
        answer: Literal["pass", "fail", "undecided", "no-answer"] = "undecided"
        reason: Literal["", "too-few-blocks", "controls-not-run"] = ""
        if self.ended and self._missing(arm, alpha):
            answer, reason = "no-answer", "too-few-blocks"
        elif self._method(arm, alpha) == "sequence":
            limit = -np.log(alpha)
            if evidence.log_evidence_above(d, theta, self.prior_scale) >= limit:
                answer = "fail"
            elif evidence.log_evidence_below(d, theta, self.prior_scale) >= limit:
                answer = "pass"
        else:
            interval = pairs.sign_flip_interval(d, 1 - alpha)
            answer = "fail" if interval.low > theta else "pass" if interval.high < theta else "undecided"
        if not self.design.controlled and answer in ("pass", "undecided"):
            answer, reason = "no-answer", "controls-not-run"
        # What the whole design can detect, not the blocks so far, so users learn before the end whether the gate
        # can fail at all.
        provable = self._smallest(arm, self.design.n_blocks, alpha) if self.design.controlled else math.inf
        return Gate(
            threshold_ratio=self.rules.threshold_ratio,
            answer=answer,
            undecided_counts_as=undecided,
            provable_ratio=provable if np.isfinite(provable) else None,
            reason=reason,
        )

    def conclude_all(self) -> dict[str, Comparison]:
        """Return the comparison of every new side that was measured.

        The intervals are simultaneous: together they have the confidence level of the session. Once a difference is
        proven, Holm's correction tests the others with a larger part of the error rate. A difference that is
        significant only by this correction has the interval at the level of its test.
        """
        measured_arms = [arm for arm in self.arms if len(self.ratios(arm))]
        share = self.side_alpha
        p_values = {arm: self._p(arm, share) for arm in measured_arms}
        # A side that was not measured cannot be significant, but counts as tested.
        adjusted = multiplicity.holm([*p_values.values()] + [1.0] * (len(self.arms) - len(measured_arms)))
        comparisons = {}
        for arm, by_holm in zip(measured_arms, adjusted, strict=False):
            # Example: three sides with p = 0.001, 0.02, 0.4. Holm's are 0.003, 0.04, 0.4: the second is claimed
            # although 0.02 > 0.05 / 3. Holm tested it at 0.05 x 0.02 / 0.04 = 0.025, so its interval has 97.5 %.
            p = p_values[arm]
            late = by_holm <= self.rules.alpha and p > share
            comparisons[arm] = self.conclude(arm, alpha=self.rules.alpha * p / by_holm if late else share)
        return comparisons

    def _p(self, arm: str, alpha: float) -> float:
        """Return the p-value of no difference; for a sequential test, the inverse of the e-value."""
        d = self.ratios(arm)
        if self._method(arm, alpha) == "sequence":
            return min(1.0, float(np.exp(-evidence.log_evidence(d, 0.0, self.prior_scale))))
        return 1.0 if self._missing(arm, alpha) else pairs.sign_flip(d)

    def conclude(self, arm: str = NEW, *, alpha: float | None = None) -> Comparison:
        """Return the comparison of a new side with the base, without guards."""
        d, alpha = self.ratios(arm), self.side_alpha if alpha is None else alpha
        p = e_value = None
        method, missing = self._method(arm, alpha), self._missing(arm, alpha)
        if method == "sequence":
            interval = evidence.confidence_sequence(d, alpha, self.prior_scale)
            # exp(710) exceeds the range of doubles.
            e_value = float(np.exp(min(700.0, evidence.log_evidence(d, 0.0, self.prior_scale))))
        elif not missing:
            interval = pairs.sign_flip_interval(d, 1 - alpha)
            p = pairs.sign_flip(d)
        else:
            interval = intervals.Interval(
                low=-math.inf, centre=float(d.mean()), high=math.inf, level=1 - alpha
            )
        verdict = intervals.verdict(interval, self.rules.delta_ratio)
        smallest = math.inf if missing else self._smallest(arm, len(d), alpha)
        more = missing or None
        if verdict == "inconclusive" and not missing:
            more = detect.more_blocks(
                d,
                interval,
                self.rules.delta_ratio,
                alpha,
                self.prior_scale,
                method,
                self.rules.threshold_ratio,
            )
        return Comparison(
            statistic=WORDS[self.statistic],
            ratio=interval.ratio,
            ratio_low=interval.ratio_low,
            ratio_high=interval.ratio_high if np.isfinite(interval.ratio_high) else None,
            level=interval.level,
            method="confidence sequence" if method == "sequence" else "sign-flip",
            n_blocks=len(d),
            n_dropped=self._n_dropped(arm),
            evidence=e_value,
            p=p,
            smallest_effect_ratio=detect.reported_effect(smallest, interval),
            phase="race",
            verdict=verdict,
            more_blocks=more,
            more_s=1e-9 * more * float(np.median(self.block_ns)) if more and self.block_ns else None,
        )

    def of_blocks(
        self, blocks: Sequence[Block], statistic: str, *, arm: str, alpha: float
    ) -> Comparison | None:
        """Return the comparison of a new side from other blocks than the duel's; None if none includes the side."""
        other = dataclasses.replace(self, blocks=list(blocks), statistic=statistic, _series={})
        return other.conclude(arm, alpha=alpha) if len(other.ratios(arm)) else None

    def _n_dropped(self, arm: str) -> int:
        """Return the number of blocks that do not count for a new side: dropped, or with a failed trial of the side."""
        return sum(
            bool(b.dropped) or any(t.arm == arm and isinstance(t.outcome, Failed) for t in b.trials)
            for b in self.blocks
        )
