"""Options of ``ortune partition``: model and execution providers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from ortune.verbs._shared.common import Page, RuntimeOption
from ortune.verbs._shared.several import KeptRows
from ortune.verbs._shared.spelling import MODEL, AnyPath, Argument, Option

if TYPE_CHECKING:
    from ortune.engines.partitions import support

FORMATS = ("text", "json", "markdown", "html")
STOPPING = ""
TABLE = "providers"
EXAMPLE = 'ortune.partition("model.onnx", providers="nnapi,coreml").result.providers'


@dataclass(frozen=True, kw_only=True)
class Options(KeptRows):
    """Which nodes does a phone's accelerator support, and in how many regions?

    Checks each node against the operators and constraints of the execution provider and computes the regions that
    ONNX Runtime would create: for the unchanged model, with fixed input shapes, and after rewrites. Names the nodes
    that split the model. Nothing is measured.
    """

    model: Annotated[
        AnyPath,
        Argument(
            "MODEL...",
            "model.onnx, model.ort, NAME.ortune or model.onnx@revision; several, folders and patterns too.",
            each=True,
        ),
    ]
    providers: Annotated[
        str,
        Option(
            "--for",
            "PROVIDER,...",
            "nnapi, coreml (MLProgram), coreml-neuralnetwork, xnnpack, qnn or webgpu; separate several by commas.",
            MODEL,
        ),
    ] = "nnapi,coreml,coreml-neuralnetwork"
    runtime: RuntimeOption = None
    report: Page = None

    @cached_property
    def formats(self) -> tuple[support.Format, ...]:
        """Operator tables of the requested providers."""
        from ortune.engines.partitions import support

        names = dict.fromkeys(filter(None, (name.strip() for name in self.providers.split(","))))
        return tuple(map(support.find, names))
