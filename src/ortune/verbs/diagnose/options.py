"""Options of ``ortune diagnose``: a model or a web page, and the budget for measuring fixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from ortune.errors import UsageError
from ortune.objectives import OF_MEMORY
from ortune.verbs._shared.common import NON_FINITE, Budget, Goal, Tolerance, require_allowed
from ortune.verbs._shared.groups import LoadOptions, OnePlanOptions, ResumeOptions, with_tolerance
from ortune.verbs._shared.quantities import seconds
from ortune.verbs._shared.severities import severity_of
from ortune.verbs._shared.spelling import GATE, MODEL, RUN, AnyPath, Argument, Option, given_flags

if TYPE_CHECKING:
    from ortune.measuring.input_options import InputOptions

FORMATS = ("text", "json", "github", "markdown", "html")
STOPPING = "stopping after this block; results so far will be shown. Ctrl-C again stops immediately"
TABLE = "tried"
EXAMPLE = 'ortune.diagnose("model.onnx").result.findings'
OF_A_PAGE = ("page", "watch", "browser", "headful", "fail_on", "report", "store")
"""Options that apply when a page is watched."""
LONGEST_WATCH_S = 3600


@dataclass(frozen=True, kw_only=True)
class Options(ResumeOptions, LoadOptions, OnePlanOptions):
    """Why is this model slow? Every fix is measured before it is recommended.

    Runs and profiles the model, applies every rule, and measures the proposed fixes, alone and together, against the
    unchanged model. A fix without a benefit is reported as such.
    """

    model: Annotated[
        AnyPath | None, Argument("[MODEL]", "model.onnx, model.ort, NAME.ortune or model.onnx@revision.")
    ] = None
    page: Annotated[
        str,
        Option("--page", "URL", "A page to observe instead of a model: how it uses onnxruntime-web.", MODEL),
    ] = ""
    watch: Annotated[
        str | float, Option("--watch", "15s", "How long to observe the page after loading.", RUN)
    ] = "15s"
    rewrite: Annotated[
        Sequence[str],
        Option("--rewrite", "NAME[:k=v]", "A rewrite to apply to the baseline. Repeatable.", MODEL),
    ] = ()
    objective: Goal = "latency"
    tolerance: Tolerance = None
    budget: Budget = "2m"
    allow: Annotated[
        Sequence[str],
        Option(
            "--allow",
            "WHAT",
            "Also measure fixes of the class numerics or behaviour, or non-finite outputs. Repeatable.",
            RUN,
        ),
    ] = ()
    fail_on: Annotated[
        str,
        Option(
            "--fail-on",
            "SEVERITY",
            "Exit with 1 at this severity or above: error, warning, note or never.",
            GATE,
        ),
    ] = "never"

    def read_feeds(self) -> InputOptions:
        """Parse the options for inputs, load and tolerance."""
        feeds = with_tolerance(super().read_feeds(), self.tolerance)
        return replace(feeds, in_turn=self.objective in OF_MEMORY, allow_nonfinite=NON_FINITE in self.allow)

    @cached_property
    def allowed(self) -> frozenset[str]:
        """Safety classes of fixes that can be measured."""
        classes = ("numerics", "behaviour", NON_FINITE)
        require_allowed(self.allow, classes, f"numerics, behaviour or {NON_FINITE}")
        return frozenset({"exact", *self.allow})

    @cached_property
    def watch_s(self) -> float:
        """Seconds for which a page is watched."""
        if bool(self.page) == (self.model is not None):
            raise UsageError(
                "pass either a model or a page",
                where="diagnose",
                do="run ortune diagnose MODEL, or ortune diagnose --page http://localhost:5173",
            )
        for name, flag in given_flags(self).items() if self.page else ():
            if name not in OF_A_PAGE:
                raise UsageError("has no effect on a page", where=flag, do="omit it")
        time_s = seconds(self.watch, "--watch")
        if not 0 < time_s <= LONGEST_WATCH_S:
            raise UsageError(
                f"{self.watch} is not a valid duration to observe a page",
                where="--watch",
                do="use e.g. 15s; the maximum is one hour",
            )
        return time_s

    @cached_property
    def severity(self) -> str:
        """The lowest severity that fails the command; "never" if no severity does."""
        from ortune.search.figures import require_objective

        require_objective(self.objective)
        return severity_of(self.fail_on, "--fail-on")
