"""Result of ``ortune history``: one row per release of ONNX Runtime."""

from __future__ import annotations

from ortune.records import (
    Comparison,
    Control,
    ExactCheck,
    Figures,
    Finding,
    GrowthFigure,
    OutputDifference,
    Runtime,
    Side,
)
from ortune.records.base import Record


class ReleaseRow(Record, frozen=True, kw_only=True):
    """One ONNX Runtime release, measured with the others in the same blocks.

    Attributes:
        figures: Its figures, from a single trial if it was not compared; None if it did not run.
        outputs: Compared with the newest release; if its outputs are wrong, every release is compared with the correct
            outputs.
        exact: The outputs compared with the model evaluated in float64; None if it did not run.
        since_previous: Compared with the previous release that ran; None for the oldest.
        growth: How memory changes with calls, of ``--objective memory-growth``; None otherwise.
        memory_verdict: Verdict of that soak: "flat", "bounded", "growing", "fragmented" or "undecided"; "" otherwise.
        failed: Why it was not measured with the others; "" if it was.
    """

    release: str
    runtime: Runtime | None = None
    figures: Figures | None = None
    outputs: OutputDifference | None = None
    exact: ExactCheck | None = None
    since_previous: Comparison | None = None
    growth: GrowthFigure | None = None
    memory_verdict: str = ""
    failed: str = ""


class HistoryResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune history --json``.

    Attributes:
        side: The model with the newest release, the base of the comparisons.
        rows: Releases, newest first.
        changed: Releases that are faster or slower than the previous one, newest first.
        whole: The newest against the oldest release that ran.
        why: The command that locates the largest change; "" if nothing changed.
    """

    side: Side
    statistic: str
    rows: tuple[ReleaseRow, ...]
    changed: tuple[str, ...] = ()
    whole: Comparison | None = None
    controls: tuple[Control, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    why: str = ""
    reproduce: str = ""
    session: str = ""
    elapsed_s: float = 0.0
