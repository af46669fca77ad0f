"""Options of ``ortune compare``: the sides, the objective, and the limits of differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal

from ortune.errors import UsageError
from ortune.objectives import OF_MEMORY
from ortune.verbs._shared.browsers import RemoteBrowser
from ortune.verbs._shared.common import NON_FINITE, Framework, Goal, Metric, Tolerance, TrustSource
from ortune.verbs._shared.groups import DownloadOptions, LoadOptions, ResumeOptions, with_tolerance
from ortune.verbs._shared.hosts import HostOptions
from ortune.verbs._shared.quantities import share
from ortune.verbs._shared.sides import Sides
from ortune.verbs._shared.spelling import GATE, MODEL, RUN, AnyPath, Option

if TYPE_CHECKING:
    from ortune.measuring.input_options import InputOptions

FORMATS = ("text", "json", "github", "markdown", "html")
STOPPING = "stopping after this trial; results so far will be shown. Ctrl-C again stops immediately"
TABLE = "comparison"
EXAMPLE = 'ortune.compare("model.onnx", b_set={"intra": 4}, budget="60s").verdict'


@dataclass(frozen=True, kw_only=True)
class Options(HostOptions, RemoteBrowser, ResumeOptions, LoadOptions, DownloadOptions, Sides):
    """Is B faster than A on this machine?

    Runs all sides in fresh processes, in random order, block by block, until the evidence is conclusive or the time is
    up (2 minutes). If no difference is found, reports the minimum detectable effect. Several sides B, C, ... are
    compared with A in the same blocks and ranked.

    A side can also be the source of an ONNX model (model.pt2, model.keras, a SavedModel folder, model.tflite or
    module:function). Its own framework runs it; PyTorch runs both eagerly and with torch.compile.
    """

    app: Annotated[
        str | None,
        Option(
            "--app",
            "'COMMAND'",
            "Compare whole runs of a program, without and with the bundle of --b-with.",
            MODEL,
        ),
    ] = None
    b_with: Annotated[
        AnyPath | None, Option("--b-with", "BUNDLE", "Bundle of an application, for --app.", MODEL)
    ] = None
    app_metric: Annotated[
        str | None,
        Option("--app-metric", "REGEX", "A number in the output of the program; the last match counts.", RUN),
    ] = None
    each: Annotated[
        bool,
        Option(
            "--each",
            "",
            "Make the same comparison on each model, folder or pattern; without it, files are sides.",
            MODEL,
        ),
    ] = False
    objective: Goal = "latency"
    tolerance: Tolerance = None
    metric: Metric = None
    max_blocks: Annotated[
        int | None,
        Option(
            "--max-blocks",
            "N",
            "Maximum number of blocks. Default: 100, more with a longer --budget.",
            RUN,
            least=6,
        ),
    ] = None
    inject_wait: Annotated[
        str | float | None,
        Option("--inject-wait", "5%", "For testing: add a busy wait to each run of B.", RUN),
    ] = None
    allow: Annotated[
        Sequence[str],
        Option("--allow", "WHAT", "non-finite: measure even if outputs are NaN or infinite.", RUN),
    ] = ()
    no_why: Annotated[
        bool, Option("--no-why", "", "Do not profile both sides after a confirmed difference.", RUN)
    ] = False
    threshold: Annotated[
        str | float | None,
        Option("--threshold", "5%", "Exit with 1 if a regression larger than this is confirmed.", GATE),
    ] = None
    framework: Framework = None
    trust_source: TrustSource = False
    undecided: Annotated[str, Option("--undecided", "pass|fail", "Result of an inconclusive gate.", GATE)] = (
        "pass"
    )

    def read_feeds(self) -> InputOptions:
        """Parse the options for inputs, load and tolerance."""
        feeds = with_tolerance(super().read_feeds(), self.tolerance, self.metric)
        return replace(feeds, in_turn=self.objective in OF_MEMORY, allow_nonfinite=NON_FINITE in self.allow)

    @property
    def most_blocks(self) -> int:
        """Maximum number of blocks: 100 for a budget of up to two minutes, more for a longer budget."""
        return self.max_blocks or max(100, int(self.budget_s / 1.2))

    @cached_property
    def threshold_ratio(self) -> float | None:
        """The smallest regression that fails the gate, as a fraction of A's time; None without a gate."""
        return share(self.threshold, "--threshold")

    @cached_property
    def wait_ratio(self) -> float:
        """The busy wait added to each of B's runs, as a fraction of the run."""
        return share(self.inject_wait, "--inject-wait") or 0.0

    @cached_property
    def counts_as(self) -> Literal["pass", "fail"]:
        """Result of a gate that could not decide, as chosen with ``--undecided``."""
        if self.undecided not in ("pass", "fail"):
            raise UsageError(f"{self.undecided!r} is neither pass nor fail", where="--undecided")
        return "fail" if self.undecided == "fail" else "pass"
