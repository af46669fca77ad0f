"""The verification of a written model by one run."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.finding import Finding
from ortune.records.measure import OutputDifference


class Verification(Record, frozen=True, kw_only=True):
    """The comparison of a written model with its source.

    Attributes:
        status: "equal"; "moved": beyond rounding, as its rewrites may cause; "not-verified": one of the two did not run
            to the end.
        reason: Why it is not verified: "no-runtime", "source" (the source does not run here), "empty" (no output has an
            element), or why the run of the new model was stopped ("timeout", "out-of-memory", "disk-full"). "" if it
            is verified.
        what: The message, one sentence.
        runtime: Package and version that ran them; "" for none.
        outputs: Difference of the outputs; None if they were not compared.
        alerts: Findings on wrong outputs of the source, or on the requested optimisation level.
    """

    status: Literal["equal", "moved", "not-verified"]
    reason: str = ""
    what: str = ""
    runtime: str = ""
    outputs: OutputDifference | None = None
    alerts: tuple[Finding, ...] = ()
