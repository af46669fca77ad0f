"""Options of ``ortune history``: model, releases and objective."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from ortune.errors import UsageError
from ortune.objectives import OBJECTIVES, OF_MEMORY, HistoryObjective
from ortune.verbs._shared.common import Budget, Settings, Tolerance
from ortune.verbs._shared.groups import ResumeOptions, with_tolerance
from ortune.verbs._shared.hosts import HostSelection
from ortune.verbs._shared.spelling import MODEL, RUN, AnyPath, Argument, Option

if TYPE_CHECKING:
    from ortune.measuring.input_options import InputOptions
    from ortune.records import Plan

FORMATS = ("text", "json", "markdown", "html")
STOPPING = "stopping after this block; results so far will be shown. Ctrl-C again stops immediately"
TABLE = "rows"
EXAMPLE = 'ortune.history("model.onnx", release=["1.27.0", "1.32.0"]).result.rows'


@dataclass(frozen=True, kw_only=True)
class Options(HostSelection, ResumeOptions):
    """Which release of ONNX Runtime made this model faster or slower here?

    Runs the last six releases in the same blocks, each in its own cached environment, and reports the release where
    the speed changed.
    """

    model: Annotated[
        AnyPath,
        Argument(
            "MODEL...",
            "model.onnx, model.ort or model.onnx@git-revision; several, folders and patterns too.",
            each=True,
        ),
    ]
    release: Annotated[
        Sequence[str],
        Option("--release", "1.31.1", "A release to test instead of the last six. Pass at least two.", MODEL),
    ] = ()
    runtime: Annotated[
        AnyPath | None,
        Option(
            "--runtime",
            "SCRIPT",
            "Another machine, on which all releases run: a script that starts a Python there.",
            MODEL,
        ),
    ] = None
    set: Settings = ()
    objective: Annotated[
        HistoryObjective,
        Option("--objective", "WHAT", f"{', '.join(OBJECTIVES)} or memory-growth.", RUN),
    ] = "latency"
    tolerance: Tolerance = None
    budget: Budget = "4m"

    def read_feeds(self) -> InputOptions:
        """Parse the options for inputs and tolerance."""
        growth = self.objective == "memory-growth"
        feeds = with_tolerance(super().read_feeds(), self.tolerance)
        return replace(feeds, in_turn=growth or self.objective in OF_MEMORY, batch_too=growth)

    @cached_property
    def releases(self) -> tuple[str, ...]:
        """Releases to run, newest first."""
        from ortune.catalogue.knobs import parse_version
        from ortune.runtimes.packages import RELEASES, require_recipes
        from ortune.search.figures import require_objective

        if len(self.release) == 1:
            raise UsageError(
                "a history needs at least two releases", where="--release", do="pass two or more releases"
            )
        if self.objective != "memory-growth":
            require_objective(self.objective)
        elif self.resume is not None:
            raise UsageError(
                "the memory of a process cannot be resumed", where="--resume", do="omit --resume"
            )
        releases = sorted(dict.fromkeys(self.release or RELEASES), key=parse_version, reverse=True)
        for release in releases:
            require_recipes(f"onnxruntime=={release}")
        return tuple(releases)

    @cached_property
    def plan(self) -> Plan:
        """Plan with which every release runs."""
        from ortune.catalogue.knobs import parse_settings
        from ortune.records import Plan

        return Plan(settings=parse_settings(list(self.set)))
