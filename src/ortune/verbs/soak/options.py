"""Options of ``ortune soak``: model, budget, and the limits of growth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, get_args

from ortune.errors import UsageError
from ortune.verbs._shared.common import Budget, CallRate, ModelsOfRecording, Rewrites
from ortune.verbs._shared.groups import BudgetOptions, LoadOptions, OnePlanOptions
from ortune.verbs._shared.spelling import RUN, AnyPath, Argument, Option

if TYPE_CHECKING:
    from ortune.measuring.input_options import InputOptions

FORMATS = ("text", "json", "markdown", "html")
STOPPING = "stopping after this turn; the verdict so far will be shown. Ctrl-C again stops immediately"
TABLE = "points"
EXAMPLE = 'ortune.soak("model.onnx", budget="10m").result.verdict'


@dataclass(frozen=True, kw_only=True)
class Options(LoadOptions, BudgetOptions, OnePlanOptions):
    """Does memory grow over time?

    Calls the model with new inputs each time, over all sizes of the workload in random order, in several processes. The
    verdict is flat, bounded, growing or fragmented, with its figure and 95 % interval.
    """

    model: Annotated[
        AnyPath,
        Argument(
            "MODEL",
            "model.onnx, model.ort, NAME.ortune, model.onnx@git-revision, or app.workload of a recorded application.",
        ),
    ]
    rewrite: Rewrites = ()
    rate: CallRate = None
    arrival: Annotated[
        str | None,
        Option("--arrival", "KIND", "When calls start: poisson (default), constant or gamma:CV.", RUN),
    ] = None
    recreate: Annotated[
        int, Option("--recreate", "N", "Delete and create the sessions after every N calls.", RUN)
    ] = 0
    fail_on: Annotated[
        str,
        Option(
            "--fail-on",
            "VERDICTS",
            "Exit with 1 on one of these verdicts, e.g. growing,killed,undecided. Default: never.",
            RUN,
        ),
    ] = "never"
    models: ModelsOfRecording = ()
    budget: Budget = "10m"

    @property
    def failing(self) -> tuple[str, ...]:
        """Verdicts that end the command with exit code 1."""
        return () if self.fail_on == "never" else tuple(part.strip() for part in self.fail_on.split(","))

    def read_feeds(self) -> InputOptions:
        """Parse the options for inputs and load; guessed sizes and a default batch size of 1 vary from call to call."""
        return replace(super().read_feeds(), in_turn=True, batch_too=True)

    def __post_init__(self) -> None:
        """Check the values of all options, and that none contradicts another.

        Raises:
            UsageError: An option is invalid or contradicts another option.
        """
        super().__post_init__()
        from ortune.catalogue.providers import of_target
        from ortune.stats.arrivals import RECORDED
        from ortune.verbs._shared.arrival_options import check
        from ortune.verbs.soak.result import SoakVerdict

        if self.recreate < 0:
            raise UsageError(f"{self.recreate} is not a number of calls", where="--recreate", do="e.g. 200")
        if self.arrival == RECORDED:
            raise UsageError(
                "recorded times cover one run, and a soak is longer",
                where="--arrival",
                do="pass --rate with the recorded rate; --workload has its sizes",
            )
        unknown = {*self.failing} - {*get_args(SoakVerdict)}
        if unknown:
            raise UsageError(
                f"{', '.join(sorted(unknown))} is not a verdict",
                where="--fail-on",
                do=f"never, or some of {', '.join(get_args(SoakVerdict))}",
            )
        in_page = of_target(self.target).in_page
        check(self.rate, self.arrival, gap=bool(self.feeds.gap_ns), in_page=in_page, workload=False)
