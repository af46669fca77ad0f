"""Options of ``ortune quantize``: model, calibration data, targets, tolerance and output files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ortune.verbs._shared.common import (
    BundleFolder,
    Metric,
    ReplaceBundle,
    RuntimeOption,
    Settings,
    Targets,
    Tolerance,
    WriteBundle,
)
from ortune.verbs._shared.groups import LoadOptions, ResumeOptions, with_tolerance
from ortune.verbs._shared.hosts import HostOptions
from ortune.verbs._shared.spelling import MODEL, RUN, AnyPath, Argument, Option, path

if TYPE_CHECKING:
    from ortune.measuring.input_options import InputOptions
    from ortune.measuring.sides import ResolvedSide
    from ortune.outputs.tolerance import Tolerance as Limit
    from ortune.records import Plan

FORMATS = ("text", "json", "markdown", "html")
STOPPING = "stopping after this step; results so far will be shown. Ctrl-C again stops immediately"
TABLE = "front"
EXAMPLE = 'ortune.quantize("model.onnx", data="samples", tolerance=0.01).result.front'
WITHIN = "0.01"
"""Default tolerance: relative L2 error."""


@dataclass(frozen=True, kw_only=True)
class Options(HostOptions, ResumeOptions, LoadOptions):
    """Which layers can be quantized, and how much faster does that make the model?

    Quantizes the whole model with each method, measures the error and time saving of every layer, and keeps layers in
    float where the error is too high. The best candidates are compared with the float model; the fastest within the
    tolerance is written as NAME.ortune.
    """

    model: Annotated[
        AnyPath, Argument("MODEL...", "model.onnx; several, folders and patterns too.", each=True)
    ]
    set: Settings = ()
    runtime: RuntimeOption = None
    data: Annotated[
        AnyPath | None,
        Option(
            "--data",
            "PATH",
            "Real inputs for calibration and for the error: a folder of .npz or test_data_set_*.",
            MODEL,
        ),
    ] = None
    targets: Targets = None
    tolerance: Tolerance = None
    metric: Metric = None
    budget: Annotated[str | float, Option("--budget", "5m", "Total time from start to answer.", RUN)] = "5m"
    force: ReplaceBundle = False
    bundle: WriteBundle = True
    output: BundleFolder = "."

    def read_feeds(self) -> InputOptions:
        """Parse the options for inputs, load, tolerance and metric."""
        feeds = with_tolerance(super().read_feeds(), self.tolerance, self.metric)
        return replace(feeds, data=path(self.data))

    @property
    def limit(self) -> Limit:
        """The tolerance of the outputs: --tolerance, else 1 % relative L2."""
        from ortune.outputs.tolerance import Tolerance as Limit

        return self.feeds.tolerance or Limit(text=WITHIN, number=float(WITHIN))

    @cached_property
    def plan(self) -> Plan:
        """The plan of the float model: the settings of --set, which also apply to all quantized models."""
        from ortune.catalogue.knobs import parse_settings
        from ortune.records import Plan

        return Plan(settings=parse_settings(list(self.set)))

    @cached_property
    def others(self) -> tuple[str, ...]:
        """The targets other than the CPU named with --targets."""
        from ortune.verbs._shared.other_runtimes import named

        return named(self.targets)

    def with_runtimes(
        self, side: ResolvedSide, say: Callable[[str], None]
    ) -> tuple[ResolvedSide, dict[str, str]]:
        """Find a runtime for each further target on which models are raced.

        Returns:
            The side with these runtimes, and the reason for each named target that does not run here.
        """
        from ortune.errors import RuntimeNotFound
        from ortune.verbs._shared.other_runtimes import ALL, AUTO, usable_here, with_targets

        if self.targets in (None, AUTO, ALL):
            return usable_here(side, say, alone=self.runtime is not None, install=self.targets == ALL), {}
        found, absent = dict(side.elsewhere), {}
        for name in self.others:
            try:
                found |= with_targets(side, [name], say).elsewhere
            except RuntimeNotFound as error:
                absent[name] = error.what
        return replace(side, elsewhere=found), absent

    @property
    def directory(self) -> Path | None:
        """The folder for the bundle; None with --no-bundle."""
        return Path(self.output) if self.bundle else None
