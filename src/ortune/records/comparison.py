"""A candidate against a baseline."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record

VerdictName = Literal[
    "faster",
    "slower",
    "equivalent",
    "inconclusive",
    "nothing-tested",
    "wrong-output",
    "invalid",
    "functional-only",
]


class Guard(Record, frozen=True, kw_only=True):
    """A figure that must not get worse while another gets better."""

    figure: Literal["mean", "p95", "memory", "cpu"]
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    limit_ratio: float
    failed: bool = False
    known: bool = True
    note: str = ""


class FigureChange(Record, frozen=True, kw_only=True):
    """What else changed, paired as what was compared: a description, with its interval of 95 %."""

    figure: Literal["p50", "load"]
    ratio: float
    ratio_low: float
    ratio_high: float


class Comparison(Record, frozen=True, kw_only=True):
    """Candidate against baseline over blocks.

    Attributes:
        estimand: What was compared, e.g. "p50 latency (median over rounds of the ratio of p50s within a round)".
        level: Confidence level of the interval.
        method: "confidence sequence", "sign-flip" or "wilcoxon".
        evidence: e-value, or None where the method gives a p-value.
        p: p-value, or None where the method gives an e-value.
        ratio_high: None where so few blocks give no upper bound (``ratio_low`` is then 0).
        smallest_effect_ratio: Smallest detectable effect, 80 % power at that level, as a share (0.02 is 2 %);
            None where so few blocks can find none.
        more_blocks: For inconclusive: about how many more blocks would tell, None when unknown.
        more_s: What these would take, seconds.
        beside: Figures that have no guard: the p50 where something else was compared, and the load where processes
            loaded alone.
    """

    estimand: str
    ratio: float
    ratio_low: float
    ratio_high: float | None
    level: float
    method: str
    n_blocks: int
    n_dropped: int = 0
    evidence: float | None = None
    p: float | None = None
    smallest_effect_ratio: float | None
    phase: Literal["race", "confirm"]
    verdict: VerdictName
    guards: tuple[Guard, ...] = ()
    more_blocks: int | None = None
    more_s: float | None = None
    beside: tuple[FigureChange, ...] = ()
