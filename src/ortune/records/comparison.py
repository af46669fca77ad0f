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
    """A metric that must not get worse while another one improves."""

    figure: Literal["mean", "p95", "memory", "cpu"]
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    limit_ratio: float
    failed: bool = False
    known: bool = True
    note: str = ""


class FigureChange(Record, frozen=True, kw_only=True):
    """The change of another figure over the same pairs: a description, with a 95 % interval."""

    figure: Literal["p50", "load"]
    ratio: float
    ratio_low: float
    ratio_high: float


class Comparison(Record, frozen=True, kw_only=True):
    """Candidate against baseline over blocks.

    Attributes:
        statistic: The compared quantity, e.g. "p50 latency (median over rounds of the ratio of p50s within a round)".
        level: Confidence level of the interval.
        method: "confidence sequence", "sign-flip" or "wilcoxon".
        evidence: e-value; None if the method gives a p-value.
        p: p-value; None if the method gives an e-value.
        base_value, new_value: The two values to show: the baseline's figure and that times ``ratio``, in nanoseconds (a
            throughput as the time of a run) or bytes. Medians of each side alone are in its figures; their quotient
            may be another one. None if a side has no such figure.
        ratio_high: None if there are too few blocks for an upper bound (``ratio_low`` is then 0).
        smallest_effect_ratio: Minimum detectable effect with 80 % power at that level, as a share (0.02 is 2 %); None
            if there are too few blocks to detect any.
        more_blocks: If inconclusive: roughly how many more blocks may settle it; None if unknown.
        more_s: The time for these blocks, in seconds.
        beside: Figures without a guard: the p50 if another quantity was compared, and the load time if each process
            loaded alone.
    """

    statistic: str
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
    base_value: float | None = None
    new_value: float | None = None
