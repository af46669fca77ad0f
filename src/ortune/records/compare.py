"""A comparison and its document."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.finding import Finding
from ortune.records.machine import Side
from ortune.records.measure import Failed, Figures, OutputDifference
from ortune.records.profile import ProfileDifference
from ortune.records.protocol import ReadBack

VerdictName = Literal["faster", "slower", "equivalent", "inconclusive", "wrong-output", "invalid"]


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


class Comparison(Record, frozen=True, kw_only=True):
    """Candidate against baseline over blocks.

    Attributes:
        estimand: What was compared, e.g. "typical latency (median)".
        level: Confidence level of the interval.
        method: "confidence sequence", "sign-flip" or "wilcoxon".
        evidence: e-value, or None where the method gives a p-value.
        p: p-value, or None where the method gives an e-value.
        ratio_high: None where so few blocks give no upper bound (``ratio_low`` is then 0).
        smallest_effect_ratio: Smallest detectable effect, 80 % power at that level, as a share (0.02 is 2 %);
            None where so few blocks can find none.
        more_blocks: For inconclusive: about how many more blocks would tell, None when unknown.
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


class Control(Record, frozen=True, kw_only=True):
    """One calibration's answer: does an identical plan look identical, is a known wait found?"""

    name: Literal["identical", "spike-in", "identical-late"]
    ok: bool
    n_blocks: int
    p: float | None = None
    expected_ratio: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    detected: bool | None = None


class CaseResult(Record, frozen=True, kw_only=True):
    """One shape of a mix: its latency on both sides and the ratio."""

    case: str
    weight: float
    base_ns: float
    new_ns: float
    ratio: float
    ratio_low: float
    ratio_high: float | None


class Gate(Record, frozen=True, kw_only=True):
    """The answer of ``--threshold``."""

    threshold_ratio: float
    answer: Literal["pass", "fail", "undecided"]
    undecided_counts_as: Literal["pass", "fail"]
    provable_ratio: float | None = None


class CompareResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune compare --json``.

    ``comparison`` and the figures are None when the new side's outputs were wrong: nothing was timed then.
    ``why`` is where a proven difference lies, from profiled processes of their own; None without one.
    """

    base: Side
    new: Side
    comparison: Comparison | None
    outputs: OutputDifference
    base_figures: Figures | None = None
    new_figures: Figures | None = None
    cases: tuple[CaseResult, ...] = ()
    controls: tuple[Control, ...] = ()
    findings: tuple[Finding, ...] = ()
    read_back: tuple[ReadBack, ...] = ()
    mapped_inputs: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    failures: tuple[Failed, ...] = ()
    gate: Gate | None = None
    why: ProfileDifference | None = None
    session: str = ""
    elapsed_s: float = 0.0
