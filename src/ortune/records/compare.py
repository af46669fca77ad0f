"""The document of a comparison."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.comparison import Comparison
from ortune.records.difference import ProfileDifference
from ortune.records.finding import Finding
from ortune.records.machine import Side
from ortune.records.measure import Failed, Figures, OutputDifference
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
    """The answer of ``--threshold``; outputs beyond the tolerance fail it, whatever the times.

    Attributes:
        answer: "no-answer" where nothing could be decided, for the ``reason``: that is no pass (exit 3).
    """

    threshold_ratio: float
    answer: Literal["pass", "fail", "undecided", "no-answer"]
    undecided_counts_as: Literal["pass", "fail"]
    provable_ratio: float | None = None
    reason: Literal["", "too-few-blocks", "controls-not-run"] = ""


class ComparedSide(Record, frozen=True, kw_only=True):
    """One of several sides that were held against the base in the same blocks.

    Attributes:
        name: What it is called: "B", "C", ...
        comparison: None where its outputs cannot be compared with the base's, and where it does not run.
        outputs: None where it does not run; ``failures`` says why.
    """

    name: str
    side: Side
    comparison: Comparison | None = None
    outputs: OutputDifference | None = None
    figures: Figures | None = None
    cases: tuple[CaseResult, ...] = ()
    read_back: tuple[ReadBack, ...] = ()
    mapped_inputs: dict[str, str] = {}
    failures: tuple[Failed, ...] = ()
    gate: Gate | None = None


class CompareResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune compare --json``.

    ``comparison`` and the figures are None when the new side's outputs cannot be compared with the base's: nothing was
    timed then. Where the base's outputs are wrong, ``outputs`` is how far the new side's are from those of the model
    without optimisation. Outputs that differ beyond the tolerance are not ``outputs.ok``, and timed all the same.
    ``why`` is where a proven difference lies, from profiled processes of their own; None without one.

    Attributes:
        causes: What rules find in the model or the plan of the slower side alone, where a difference is proven.
        name: What the new side is called: "B", or of several that which is told first.
        wrong_sides: Sides of which nothing is claimed: ONNX Runtime's optimiser makes their outputs wrong, or these are
            no numbers.
        candidates: Where several sides were held against the base: all of them, the fastest first. What stands beside
            it is said of the first of them.
        enough_s: A budget that holds the fewest blocks of a claim, with their controls; None where this one did.
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
    name: str = "B"
    wrong_sides: tuple[str, ...] = ()
    candidates: tuple[ComparedSide, ...] = ()
    why: ProfileDifference | None = None
    causes: tuple[Finding, ...] = ()
    session: str = ""
    elapsed_s: float = 0.0
    enough_s: float | None = None
