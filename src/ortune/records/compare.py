"""The document of a comparison."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.comparison import Comparison
from ortune.records.finding import Finding
from ortune.records.machine import Side
from ortune.records.measure import Failed, Figures, OutputDifference
from ortune.records.profile import ProfileDifference
from ortune.records.protocol import ReadBack


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
