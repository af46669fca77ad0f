"""Result of ``ortune diagnose``: the cause, and the measured fixes."""

from __future__ import annotations

from ortune.records import (
    Comparison,
    Control,
    Figures,
    Finding,
    OutputDifference,
    PeakInTurn,
    Plan,
    ProfileResult,
    Side,
    WatchedPage,
)
from ortune.records.base import Record


class TriedFix(Record, frozen=True, kw_only=True):
    """A fix that was measured against the unchanged model in the same blocks.

    Attributes:
        codes: Codes of the findings that it fixes.
        plan: The change alone.
        command: The command that measures it again.
        figures: Figures with the fix; None if it was not measured.
        outputs: Outputs with the fix compared with those without.
        comparison: Time with the fix over time without; None if it was not measured.
        failed: Why it was not measured; "" if it was.
    """

    codes: tuple[str, ...]
    plan: Plan
    command: str = ""
    figures: Figures | None = None
    outputs: OutputDifference | None = None
    comparison: Comparison | None = None
    failed: str = ""


class DiagnoseResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune diagnose --json``.

    Attributes:
        side: The diagnosed model.
        figures: Its figures; None if nothing was timed.
        findings: Findings with a confirmed gain first, the largest gain first; then by their share of the run; then
            those whose measured fix does not help.
        tried: Each fix alone.
        together: All compatible fixes together; None if fewer than two were measured.
        not_tried: Codes of findings whose fix needs permission, because it changes more than time.
        profile: Where the time goes; the basis of the findings.
        peak_in_turn: Peak memory with several sizes in turn; None if sizes are fixed or memory is unknown.
        failed: Whether findings at ``--fail-on`` or above are left.
        page: The observed page, if a page was diagnosed instead of a model; ``side`` is then its first session.
        enough_s: The budget in seconds that is enough for the fixes that were not measured; 0 if all were.
        tune: The command that searches all settings.
    """

    side: Side
    statistic: str = ""
    figures: Figures | None = None
    findings: tuple[Finding, ...] = ()
    tried: tuple[TriedFix, ...] = ()
    together: TriedFix | None = None
    not_tried: tuple[str, ...] = ()
    profile: ProfileResult | None = None
    controls: tuple[Control, ...] = ()
    peak_in_turn: PeakInTurn | None = None
    notes: tuple[str, ...] = ()
    fail_on: str = "never"
    failed: bool = False
    reproduce: str = ""
    tune: str = ""
    session: str = ""
    page: WatchedPage | None = None
    elapsed_s: float = 0.0
    enough_s: float = 0.0
