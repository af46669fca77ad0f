"""What the answers of verbs that look for something faster have in common."""

from __future__ import annotations

from ortune.records.base import Record
from ortune.records.compare import Control
from ortune.records.comparison import Comparison
from ortune.records.finding import Finding
from ortune.records.machine import Side
from ortune.records.measure import Figures, OutputDifference
from ortune.records.plan import Plan


class Answer(Record, frozen=True, kw_only=True):
    """The plan to ship, and what supports it.

    Attributes:
        headline: The answer in one or two sentences, the same in every format.
        winner: The plan to ship; the one that is there where that is best.
        changes: It is another one than what runs today.
        against_default: Confirmation of the winner against the default on fresh blocks; None where nothing changes.
        alone: The last check: the winner against what it replaces once more, no two processes alive at once; None
            where no time was left for it.
        outputs: Of the winner, against the default's.
    """

    side: Side
    headline: str = ""
    estimand: str = ""
    winner: Plan
    changes: bool = False
    default_figures: Figures
    winner_figures: Figures | None = None
    against_default: Comparison | None = None
    alone: Comparison | None = None
    outputs: OutputDifference | None = None
    controls: tuple[Control, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    code: str = ""
    reproduce: str = ""
    bundle: str = ""
    report: str = ""
    session: str = ""
    elapsed_s: float = 0.0
