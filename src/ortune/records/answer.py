"""The common part of the results of ``tune`` and ``quantize``."""

from __future__ import annotations

from ortune.records.base import Record
from ortune.records.comparison import Comparison, Control
from ortune.records.finding import Finding
from ortune.records.machine import Side
from ortune.records.measure import Figures, OutputDifference
from ortune.records.plan import Plan


class ShippedAnswer(Record, frozen=True, kw_only=True):
    """The configuration to ship, with its evidence.

    Attributes:
        headline: The answer in one or two sentences, the same in every format.
        winner: The plan to ship; the current one if no other is better.
        changes: Whether ``winner`` differs from the plan in use today.
        against_default: Confirmation of the winner against the default on fresh blocks; None if nothing changes.
        alone: Final check with one process at a time: the winner against the plan that it replaces. None if there was
            no time for it.
        outputs: The winner's outputs compared with the default's; None if they were not compared.
        made_by: The package and version of the other tool that made the winner's file; "" for ONNX Runtime or ortune.
    """

    side: Side
    headline: str = ""
    statistic: str = ""
    winner: Plan
    changes: bool = False
    default_figures: Figures
    winner_figures: Figures | None = None
    against_default: Comparison | None = None
    alone: Comparison | None = None
    outputs: OutputDifference | None = None
    made_by: str = ""
    controls: tuple[Control, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    code: str = ""
    reproduce: str = ""
    bundle: str = ""
    report: str = ""
    session: str = ""
    elapsed_s: float = 0.0
