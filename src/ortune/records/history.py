"""One model over releases of ONNX Runtime."""

from __future__ import annotations

from ortune.records.base import Record
from ortune.records.compare import Control
from ortune.records.comparison import Comparison
from ortune.records.finding import Finding
from ortune.records.machine import Runtime, Side
from ortune.records.measure import Figures, OutputDifference


class ReleaseRow(Record, frozen=True, kw_only=True):
    """One release beside the others, in the same blocks.

    Attributes:
        figures: Its own, of one trial where it was not compared; None where it did not run.
        outputs: Against the newest release's.
        since_previous: Against the release before it that ran; None for the oldest.
        failed: Why it was not measured beside the others, "" where it was.
    """

    release: str
    runtime: Runtime | None = None
    figures: Figures | None = None
    outputs: OutputDifference | None = None
    since_previous: Comparison | None = None
    failed: str = ""


class HistoryResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune history --json``.

    Attributes:
        side: The model with the newest release, which the others are held against.
        rows: Releases, newest first.
        changed: Those that are faster or slower than the one before, newest first.
        whole: The newest against the oldest that ran.
        why: The command that says at which nodes the largest change lies; "" where nothing changed.
    """

    side: Side
    estimand: str
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
