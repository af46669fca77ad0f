"""Options of ``ortune tune``: model, budget, search space and output files."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated

from ortune.errors import UsageError
from ortune.printable import operand
from ortune.verbs._shared.common import BundleFolder, ModelsOfRecording, ReplaceBundle, WriteBundle
from ortune.verbs._shared.hosts import HostOptions
from ortune.verbs._shared.quantities import seconds
from ortune.verbs._shared.spelling import RUN, AnyPath, Argument, Option
from ortune.verbs.tune.searched import SearchOptions

FORMATS = ("text", "json", "markdown", "github", "html")
QUICK_BUDGET = "30s"
BUDGET, BROWSER_BUDGET = "3m", "10m"
"""Default budgets for processes and for browsers. A page takes 4 to 6 s to load onnxruntime-web, warm up and end; a
process takes half a second. With four minutes, three of five models had no plan tested in a browser."""
STOPPING = (
    "stopping the search; the best configuration so far is confirmed with nine blocks. Ctrl-C again "
    "stops immediately"
)
TABLE = "candidates"
EXAMPLE = 'ortune.tune("model.onnx", budget="3m").result.bundle'


@dataclass(frozen=True, kw_only=True)
class Options(HostOptions, SearchOptions):
    """Find the fastest correct way to run a model on this machine.

    Measures settings one by one against the default, combines those that help, drops those that do not, and confirms
    the winner on fresh blocks. Writes NAME.ortune: model, settings, code, report and measurements.
    """

    model: Annotated[
        AnyPath,
        Argument(
            "MODEL...",
            "model.onnx, model.ort, or app.workload of a recorded application; several, folders and patterns too.",
            each=True,
        ),
    ]
    budget: Annotated[
        str | float,
        Option(
            "--budget",
            "2m",
            f"Total time from start to answer. Default: {BUDGET}, or {BROWSER_BUDGET} in a browser.",
            RUN,
        ),
    ] = ""
    quick: Annotated[
        bool,
        Option(
            "--quick",
            "",
            f"A quick look: --budget {QUICK_BUDGET}, and no bundle is written.",
            RUN,
            again=False,
        ),
    ] = False
    models: ModelsOfRecording = ()
    rate: Annotated[
        str | float | None,
        Option("--rate", "50/s", "Start the calls of a recording at this rate, all together.", RUN),
    ] = None
    arrival: Annotated[
        str | None,
        Option(
            "--arrival",
            "KIND",
            "When the calls of a recording start: poisson (default), constant, gamma:CV, or recorded.",
            RUN,
        ),
    ] = None
    force: ReplaceBundle = False
    bundle: WriteBundle = True
    output: BundleFolder = "."

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            UsageError: An option is invalid or contradicts another option.
        """
        super().__post_init__()
        if self.rate is None and self.arrival is None:
            return
        from ortune.verbs._shared.applications import recording_of
        from ortune.verbs._shared.arrival_options import check

        if recording_of(self.model) is None:
            raise UsageError(
                "applies only to a recording",
                where="--arrival" if self.rate is None else "--rate",
                do="omit it, or measure the model with ortune bench",
            )
        check(self.rate, self.arrival, gap=bool(self.feeds.gap_ns), in_page=False, workload=True)

    @cached_property
    def budget_s(self) -> float:
        """Budget for the whole invocation, in seconds; the default depends on the target."""
        from ortune import targets

        if self.budget == "":
            usual = BROWSER_BUDGET if self.first_target in targets.in_browsers() else BUDGET
            return seconds(usual, "--budget")
        return super().budget_s

    @property
    def directory(self) -> Path | None:
        """Folder of the bundle; None without a bundle."""
        return Path(self.output) if self.bundle else None

    @property
    def spelled_out(self) -> Options:
        """The options with ``--quick`` expanded.

        Raises:
            UsageError: ``--budget`` or ``--force`` was passed too.
        """
        if not self.quick:
            return self
        if self.budget != "" or self.force:
            raise UsageError(
                f"--quick means --budget {QUICK_BUDGET} without a bundle",
                where="--quick",
                do="omit --quick, or --budget and --force",
            )
        return replace(self, quick=False, budget=QUICK_BUDGET, bundle=False)

    def check(self) -> None:
        """Raise UsageError for options that cannot be searched, allowed or written."""
        from ortune.bundle import format as bundle_format

        if self.force and not self.bundle:
            raise UsageError(
                "no bundle is written, so --force has no effect",
                where="--force",
                do="omit it or --no-bundle",
            )
        self.require_searchable()
        model = Path(self.model)
        if bundle_format.is_bundle(model):
            # Somebody else may have named the model; the line is there to be pasted into a shell.
            tuned, plain = (shlex.quote(operand(p)) for p in (model, model / bundle_format.read(model).model))
            raise UsageError(
                "is already tuned, so its configuration would count as the default",
                where=str(model),
                do=f"run ortune compare {tuned} to confirm it again, or ortune tune {plain} to start over",
            )
