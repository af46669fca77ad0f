"""What slows a model down, each fix measured."""

from __future__ import annotations

from ortune.records.base import Record
from ortune.records.compare import Control
from ortune.records.comparison import Comparison
from ortune.records.finding import Finding
from ortune.records.machine import Side
from ortune.records.measure import Figures, OutputDifference
from ortune.records.page import WatchedPage
from ortune.records.plan import Plan
from ortune.records.profile import ProfileResult


class TriedFix(Record, frozen=True, kw_only=True):
    """A change that findings ask for, beside the model without it, in the same blocks.

    Attributes:
        codes: Of the findings that it is the fix of.
        plan: What was changed, and nothing that was there before.
        command: Measures it again.
        figures: With the change; None where it was not measured.
        outputs: Against those without the change.
        comparison: With the change over without; None where it was not measured.
        failed: Why it was not, "" where it was.
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
        side: The model as it was diagnosed.
        figures: Its own; None where nothing was raced.
        findings: What was proven to pay first, the largest gain first; then by the share of the run; then those whose
            fix was measured and does not pay.
        tried: Each fix alone.
        together: All that may stand together at once; None where fewer than two were measured.
        not_tried: Codes of findings whose fix needs leave to change more than the time.
        profile: Where the time goes, which the findings are from.
        failed: Whether findings are left at ``--fail-on`` or above.
        page: The user's own page, where that was watched in place of a model; ``side`` is then its first session.
        enough_s: The budget that holds the fixes that this one did not; 0 where it held all.
        tune: The command that looks for more than findings ask for.
    """

    side: Side
    estimand: str = ""
    figures: Figures | None = None
    findings: tuple[Finding, ...] = ()
    tried: tuple[TriedFix, ...] = ()
    together: TriedFix | None = None
    not_tried: tuple[str, ...] = ()
    profile: ProfileResult | None = None
    controls: tuple[Control, ...] = ()
    notes: tuple[str, ...] = ()
    fail_on: str = "never"
    failed: bool = False
    reproduce: str = ""
    tune: str = ""
    session: str = ""
    page: WatchedPage | None = None
    elapsed_s: float = 0.0
    enough_s: float = 0.0
