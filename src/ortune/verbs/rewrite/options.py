"""Options of ``ortune rewrite``: model, rewrites and output file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ortune.errors import UsageError
from ortune.verbs._shared.common import Metric, NeverWaits, Page, ReplaceFile, Seed, Tolerance
from ortune.verbs._shared.groups import OnePlanOptions, with_tolerance
from ortune.verbs._shared.spelling import OUT, RUN, AnyPath, Argument, Option, path

if TYPE_CHECKING:
    from ortune.measuring.input_options import InputOptions
    from ortune.records import RewriteSpec

FORMATS = ("text", "json", "github", "markdown", "html")
STOPPING = ""
TABLE = "steps"
EXAMPLE = 'ortune.rewrite("model.onnx", "affine-into-weights", output="new.onnx")'


@dataclass(frozen=True, kw_only=True)
class Options(OnePlanOptions):
    """Apply rewrites to a model, or list those that apply.

    Without names, lists the rewrites that apply to this model; -v shows why the others do not. With names, applies
    them in this order, compares the outputs, and writes a new model. The original is never changed.
    """

    model: Annotated[AnyPath, Argument("MODEL", "model.onnx, a bundle, or model.onnx@git-revision.")]
    names: Annotated[Sequence[str], Argument("[NAME[:k=v]]", "Rewrites, in the order to apply them.")] = ()
    dry_run: Annotated[
        bool, Option("--dry-run", "", "Show what each rewrite would change, without writing.", RUN)
    ] = False
    force: ReplaceFile = False
    tolerance: Tolerance = None
    metric: Metric = None
    seed: Seed = 0
    no_wait: NeverWaits = False
    output: Annotated[
        AnyPath | None,
        Option(
            "--output",
            "FILE",
            "File for the new model. Default: MODEL-rewritten.onnx in the current folder.",
            OUT,
            short="-o",
        ),
    ] = None
    report: Page = None

    def read_feeds(self) -> InputOptions:
        """Parse the options for inputs, tolerance and seed."""
        feeds = with_tolerance(super().read_feeds(), self.tolerance, self.metric)
        return replace(feeds, seed=self.seed)

    @cached_property
    def asked(self) -> tuple[RewriteSpec, ...]:
        """The plan's rewrites, followed by the rewrites that the command line names."""
        from ortune import rewrites

        for text in self.names:
            if Path(text).suffix in (".onnx", ".ort"):
                raise UsageError(
                    f"{text!r} is a model, not a rewrite",
                    do="pass the model first, then the rewrites: ortune rewrite MODEL NAME",
                )
        specs = (*self.common.rewrites, *(rewrites.parse(text, where="") for text in self.names))
        for option, is_set in (("--output", self.output is not None), ("--force", self.force)):
            if is_set and not specs:
                what = "no rewrite was passed, so no model is written"
                raise UsageError(
                    what, where=option, do="pass a rewrite; ortune rewrite MODEL lists those that apply"
                )
        return specs

    @property
    def ending(self) -> str:
        """Suffix of the new model's file, which depends on the last rewrite."""
        from ortune import rewrites

        return rewrites.find(self.asked[-1].name).makes

    def place(self, model: Path) -> Path:
        """Return the path of the new model.

        Raises:
            UsageError: The path is not writable, or an existing file must not be replaced.
        """
        from ortune import rewrites
        from ortune.graph.model.save import require_place

        place = path(self.output) or Path(f"{model.stem}-rewritten{self.ending}")
        if (self.ending == rewrites.ORT) != (place.suffix == rewrites.ORT):
            kind = "ORT format" if self.ending == rewrites.ORT else "ONNX format"
            raise UsageError(
                f"would contain a model in {kind}", where=str(place), do=f"call it {place.stem}{self.ending}"
            )
        require_place(place, replace=self.force)
        return place
