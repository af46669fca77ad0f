"""Options of ``ortune look``: model, rewrite and budget."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from ortune.verbs._shared.common import Rewrites
from ortune.verbs._shared.groups import BudgetOptions, OnePlanOptions
from ortune.verbs._shared.hosts import HostOptions
from ortune.verbs._shared.quantities import seconds
from ortune.verbs._shared.several import KeptRows
from ortune.verbs._shared.spelling import RUN, AnyPath, Argument, Option

FORMATS = ("text", "json", "markdown", "html")
STOPPING = ""
TABLE = "profile.operators"
EXAMPLE = 'ortune.look("model.onnx").summary()'


@dataclass(frozen=True, kw_only=True)
class Options(HostOptions, KeptRows, BudgetOptions, OnePlanOptions):
    """A first look at a model in ten seconds; short form: ortune MODEL.

    Shows what the file contains, the chosen inputs, the latency with default settings (a single observation), the most
    expensive operators, findings, and what to do next.
    """

    model: Annotated[
        AnyPath,
        Argument(
            "MODEL...",
            "model.onnx, model.ort, NAME.ortune or model.onnx@revision; several, folders and patterns too.",
            each=True,
        ),
    ]
    rewrite: Rewrites = ()
    budget: Annotated[
        str | float, Option("--budget", "8s", "Total time; steps that take longer are skipped.", RUN)
    ] = "8s"

    @cached_property
    def budget_s(self) -> float:
        """Budget of the whole command in seconds; 0 allows only the first run."""
        return seconds(self.budget, "--budget")
