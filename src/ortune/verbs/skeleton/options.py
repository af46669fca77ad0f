"""Options of ``ortune skeleton``: model, output file and seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ortune.verbs._shared.common import NoWait, Page, ReplaceFile, Seed
from ortune.verbs._shared.groups import OnePlanOptions
from ortune.verbs._shared.spelling import OUT, AnyPath, Argument, Option, path

if TYPE_CHECKING:
    from ortune.measuring.input_options import InputOptions
    from ortune.measuring.terms import Terms

FORMATS = ("text", "json", "markdown", "html")
STOPPING = ""
TABLE = "profile.operators"
EXAMPLE = 'ortune.skeleton("model.onnx", output="skeleton.onnx")'
USUAL = "skeleton.onnx"
"""Default file name, without the model's name, which may be confidential."""


@dataclass(frozen=True, kw_only=True)
class Options(OnePlanOptions):
    """Write a small copy of a model without weights, names or metadata, to share with others.

    Graph, shapes and types are kept; weights are random. Findings and operator times are compared with the
    original, and differences are reported.
    """

    model: Annotated[AnyPath, Argument("MODEL", "model.onnx, or model.onnx@git-revision.")]
    force: ReplaceFile = False
    seed: Seed = 0
    no_wait: NoWait = False
    output: Annotated[
        AnyPath | None,
        Option(
            "--output",
            "FILE",
            f"File for the skeleton. Default: {USUAL} in the current folder.",
            OUT,
            short="-o",
            again=False,
        ),
    ] = None
    report: Page = None

    def read_feeds(self) -> InputOptions:
        """Parse the options for inputs and seed."""
        return replace(super().read_feeds(), seed=self.seed)

    @property
    def terms(self) -> Terms:
        """Terms of the measurement, including whether to wait for another ortune process."""
        return replace(super().terms, wait=not self.no_wait)

    def place(self) -> Path:
        """Return the path of the skeleton.

        Raises:
            UsageError: The path is not writable, or an existing file must not be replaced.
        """
        from ortune.graph.model.save import require_place

        place = path(self.output) or Path(USUAL)
        require_place(place, replace=self.force)
        return place
