"""Options of ``ortune lock``: model, lock file, and how strictly to check."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ortune.errors import UsageError
from ortune.verbs._shared.common import NeverWaits, Page, Rewrites
from ortune.verbs._shared.groups import OnePlanOptions, with_tolerance
from ortune.verbs._shared.several import KeptRows
from ortune.verbs._shared.spelling import GATE, OUT, RUN, AnyPath, Argument, Option, path

if TYPE_CHECKING:
    from ortune.measuring.input_options import InputOptions

FORMATS = ("text", "json", "github", "markdown", "html")
STOPPING = ""
TABLE = "changes"
EXAMPLE = 'ortune.lock("model.onnx", check=True).result.changes'


@dataclass(frozen=True, kw_only=True)
class Options(KeptRows, OnePlanOptions):
    """Has ONNX Runtime's optimised graph of this model changed?

    Writes operators per optimisation level, fusions, memory, sizes and rounded outputs to MODEL.lock.json, or compares
    the model with that file (--check). Nothing is timed, so other load on the machine does not matter.
    """

    model: Annotated[
        AnyPath,
        Argument(
            "MODEL...",
            "model.onnx, a bundle, model.onnx@git-revision, or app.workload of a recorded application; several, "
            "folders and patterns too.",
            each=True,
        ),
    ]
    file: Annotated[
        AnyPath | None, Argument("[FILE]", "With --check: the lock file. Default: MODEL.lock.json.")
    ] = None
    check: Annotated[
        bool, Option("--check", "", "Compare with the lock file; exit with 1 on a relevant change.", GATE)
    ] = False
    strict: Annotated[
        bool, Option("--strict", "", "Fail on every difference, even if only onnxruntime changed.", GATE)
    ] = False
    rewrite: Rewrites = ()
    tolerance: Annotated[
        str | float | None,
        Option(
            "--tolerance",
            "X",
            "Accepted difference of each output's mean, norm and weighted sum, relative to its norm, e.g. 0.01.",
            RUN,
        ),
    ] = None
    no_wait: NeverWaits = False
    seed: Annotated[
        int | None,
        Option("--seed", "N", "Seed of the inputs. Default: 0, or with --check that of the lock file.", RUN),
    ] = None
    output: Annotated[
        AnyPath | None,
        Option(
            "--output",
            "FILE",
            "Lock file to write; with --check, file for the result.",
            OUT,
            short="-o",
            writes=True,
        ),
    ] = None
    report: Page = None

    def read_feeds(self) -> InputOptions:
        """Parse the options for inputs, tolerance and seed."""
        return replace(with_tolerance(super().read_feeds(), self.tolerance), seed=self.seed or 0)

    @cached_property
    def place(self) -> Path:
        """Path of the lock file."""
        from ortune.engines.locks.file import default_path

        if self.file is not None and not self.check:
            raise UsageError(
                "a lock file without --check has no effect",
                where=str(self.file),
                do="add --check to compare with it, or --output FILE to write it",
            )
        if self.strict and not self.check:
            raise UsageError("it has an effect only with --check", where="--strict", do="add --check")
        return path(self.file if self.check else self.output) or default_path(str(self.model))

    @property
    def answer(self) -> Path | None:
        """File for the result of a check; None for stdout."""
        return path(self.output) if self.check else None

    @cached_property
    def allowed(self) -> float | None:
        """Accepted relative difference of output statistics; None for the smallest that can be compared."""
        asked = self.feeds.tolerance
        if asked is not None and asked.number is None:
            # A lock holds figures of outputs and not the outputs, which these others are of.
            raise UsageError(
                f"{asked.text} is not a positive number", where="--tolerance", do="e.g. --tolerance 0.05"
            )
        return None if asked is None else asked.number
