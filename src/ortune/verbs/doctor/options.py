"""Options of ``ortune doctor``: runtime, model for the noise, and whether to measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ortune.verbs._shared.common import Page, Resume, RuntimeOption
from ortune.verbs._shared.groups import BrowserOptions, StoreOptions
from ortune.verbs._shared.spelling import RUN, AnyPath, Argument, Option

FORMATS = ("text", "json", "markdown", "html")
STOPPING = "stopping after this trial. Ctrl-C again stops immediately"
TABLE = "runtimes"
EXAMPLE = "ortune.doctor().result.runtimes"


@dataclass(frozen=True, kw_only=True)
class Options(BrowserOptions, StoreOptions):
    """What can this machine run, and how small a difference can it detect?

    Lists the ONNX Runtime builds, why execution providers are missing, and what slows the machine down. Measures the
    controls (A/A check and sensitivity check) and the machine's peak (arithmetic and memory bandwidth).
    """

    model: Annotated[
        AnyPath | None,
        Argument("[MODEL]", "Model for the noise measurement. Default: a small built-in model."),
    ] = None
    runtime: RuntimeOption = None
    measure: Annotated[
        bool,
        Option(
            "--measure/--no-measure",
            "",
            "Also measure noise (about 20 s) and the machine's peak (10 s on a quiet machine, 40 s on a busy one).",
            RUN,
        ),
    ] = True
    resume: Resume = None
    report: Page = None
