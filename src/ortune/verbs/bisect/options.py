"""Options of ``ortune bisect``."""

from __future__ import annotations

from dataclasses import dataclass

from ortune.verbs._shared.common import NeverWaits, Page, Seed, Tolerance
from ortune.verbs._shared.sides import TwoSides

FORMATS = ("text", "json", "github", "markdown", "html")
STOPPING = ""
TABLE = "values"


@dataclass(frozen=True, kw_only=True)
class Options(TwoSides):
    """Which node makes the outputs of two models, or two configurations, differ?

    Runs both sides with every intermediate value as an output and matches the values. Reports the first node whose
    output differs by more than rounding although its inputs are equal. Nothing is timed.
    """

    tolerance: Tolerance = None
    seed: Seed = 0
    no_wait: NeverWaits = False
    report: Page = None
