"""Options of ``ortune bench``: model, load and number of processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ortune.verbs._shared.common import CallRate, ModelsOfRecording
from ortune.verbs._shared.groups import LoadOptions, OneBenchOptions
from ortune.verbs._shared.hosts import HostOptions
from ortune.verbs._shared.spelling import RUN, AnyPath, Argument, Option

FORMATS = ("text", "json", "markdown", "html")
STOPPING = "stopping after this process; results so far will be shown. Ctrl-C again stops immediately"
TABLE = "rows"
EXAMPLE = 'ortune.bench("model.onnx", dim={"batch": 8}).result.rows[0].p50_ms'


@dataclass(frozen=True, kw_only=True)
class Options(HostOptions, LoadOptions, OneBenchOptions):
    """How fast is this model with these settings?

    Measures latency with its tails, throughput, load time, memory and CPU time, each with a confidence interval over
    several fresh processes, one row per shape. To find out whether another configuration is faster, use compare.
    """

    model: Annotated[
        AnyPath,
        Argument(
            "MODEL...",
            "model.onnx, model.ort, NAME.ortune, model.onnx@git-revision, or app.workload of a recorded application; "
            "several, folders and patterns too.",
            each=True,
        ),
    ]
    shared_pool: Annotated[bool, Option("--shared-pool", "", "One thread pool for all sessions.", RUN)] = (
        False
    )
    shared_arena: Annotated[bool, Option("--shared-arena", "", "One memory arena for all sessions.", RUN)] = (
        False
    )
    models: ModelsOfRecording = ()
    rate: CallRate = None
    arrival: Annotated[
        str | None,
        Option(
            "--arrival",
            "KIND",
            "When calls start: poisson (default), constant, gamma:CV, or recorded (of --workload).",
            RUN,
        ),
    ] = None

    def __post_init__(self) -> None:
        """Parse the options, so that invalid options fail before any work starts."""
        super().__post_init__()
        if self.rate is None and self.arrival is None:
            return
        from ortune.catalogue.providers import of_target
        from ortune.verbs._shared.applications import recording_of
        from ortune.verbs._shared.arrival_options import check

        check(
            self.rate,
            self.arrival,
            gap=bool(self.feeds.gap_ns),
            in_page=of_target(self.target).in_page,
            workload=self.workload is not None or recording_of(self.model) is not None,
        )
