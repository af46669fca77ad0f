"""What running a written model once has shown."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.measure import OutputDifference


class Verification(Record, frozen=True, kw_only=True):
    """Whether a model that was written was run beside its source, and gave the same.

    Attributes:
        status: "equal"; "moved": further apart than rounding, as its rewrites may move them; "not-verified": one of the
            two was not run to the end.
        reason: Of "not-verified": "no-runtime", "source" (the source itself does not run here), or why the trial of the
            new one was cut off ("timeout", "out-of-memory", "disk-full").
        what: What was said of that, one sentence.
        runtime: What ran them, by package and version; "" for nothing.
        outputs: How far apart they are; None where they were not compared.
    """

    status: Literal["equal", "moved", "not-verified"]
    reason: str = ""
    what: str = ""
    runtime: str = ""
    outputs: OutputDifference | None = None
