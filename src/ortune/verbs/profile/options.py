"""Options of ``ortune profile``: a model or trace, a second one to compare with, and exports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from ortune.verbs._shared.common import Cpus, Memory, Pairs, Rewrites
from ortune.verbs._shared.groups import OnePlanOptions, ResumeOptions, with_pod
from ortune.verbs._shared.spelling import MODEL, OUT, RUN, AnyPath, Argument, Option, given_flags

if TYPE_CHECKING:
    from ortune.measuring.input_options import InputOptions

FORMATS = ("text", "json", "markdown", "html")
STOPPING = ""
TABLE = "nodes"
EXAMPLE = 'ortune.profile("model.onnx").to_pandas()'


@dataclass(frozen=True, kw_only=True)
class Options(ResumeOptions, OnePlanOptions):
    """Where does every millisecond of a run go?

    Runs a model under ONNX Runtime's profiler, or reads an existing profile. Divides the run into kernels, thread
    wait, copies, casts and overhead, which sum to the whole, and shows the time of each node, operator and layer.
    """

    subject: Annotated[
        AnyPath,
        Argument(
            "MODEL|PROFILE",
            "A model to run (model.onnx, model.ort, NAME.ortune or model.onnx@revision), or a profile to read.",
        ),
    ]
    against: Annotated[
        AnyPath | None,
        Option(
            "--against",
            "B",
            "Another model, a plan for the same model, or another profile; shows the difference, B minus A.",
            MODEL,
        ),
    ] = None
    rewrite: Rewrites = ()
    b_set: Annotated[
        Pairs,
        Option(
            "--b-set",
            "KNOB=VALUE",
            "A setting of B; without --against, B is the same model. Repeatable.",
            MODEL,
        ),
    ] = ()
    b_rewrite: Annotated[
        Sequence[str], Option("--b-rewrite", "NAME[:k=v]", "A rewrite of B only. Repeatable.", MODEL)
    ] = ()
    b_runtime: Annotated[
        AnyPath | None,
        Option("--b-runtime", "PATH|NAME", "The onnxruntime of B only.", MODEL, also="--b-python"),
    ] = None
    processes: Annotated[
        int | None,
        Option("--processes", "N", "Profiled processes per side. Default: 1, or 5 with --against.", RUN),
    ] = None
    sessions: Annotated[
        int,
        Option("--sessions", "N", "Sessions of the workload; the profile is of one.", RUN, least=1),
    ] = 1
    callers: Annotated[
        int,
        Option("--callers", "N", "Concurrent callers of the workload; the profile is of one.", RUN, least=1),
    ] = 1
    no_peak: Annotated[
        bool,
        Option(
            "--no-peak",
            "",
            "Do not measure this machine's peak if it is unknown.",
            RUN,
        ),
    ] = False
    keep: Annotated[
        AnyPath | None,
        Option(
            "--keep", "FILE", "Keep ONNX Runtime's own profile in this file.", OUT, again=False, writes=True
        ),
    ] = None
    export: Annotated[
        Sequence[str],
        Option(
            "--export",
            "KIND=FILE",
            "chrome, speedscope, csv, nodes-csv, columns or model-explorer. Repeatable.",
            OUT,
            again=False,
        ),
    ] = ()
    cpus: Cpus = None
    memory: Memory = None
    budget: Annotated[str | float, Option("--budget", "30s", "Total time from start to answer.", RUN)] = "30s"
    timeline: bool = False

    def read_feeds(self) -> InputOptions:
        """Parse the options for inputs, the load and the emulated container."""
        feeds = replace(super().read_feeds(), sessions=self.sessions, callers=self.callers)
        return with_pod(feeds, self.cpus, self.memory)

    @property
    def of_models(self) -> list[str]:
        """Flags of the options that were passed and apply only to models."""
        of_both = {"subject", "against", "no_peak", "keep", "export", "report", "no_wait", "store"}
        return [flag for name, flag in given_flags(self).items() if name not in of_both]
