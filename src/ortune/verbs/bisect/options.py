"""Options of ``ortune bisect``: the two sides, their inputs and the tolerance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ortune.verbs._shared.common import NeverWaits, Page, Seed, Tolerance
from ortune.verbs._shared.groups import with_tolerance
from ortune.verbs._shared.sides import TwoSides

if TYPE_CHECKING:
    from ortune.measuring.input_options import InputOptions

FORMATS = ("text", "json", "github", "markdown", "html")
STOPPING = ""
TABLE = "values"
EXAMPLE = 'ortune.bisect("a.onnx", "b.onnx").result.partings'


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

    def read_feeds(self) -> InputOptions:
        """Read inputs, tolerance and seed."""
        return replace(with_tolerance(super().read_feeds(), self.tolerance), seed=self.seed)
