"""Options of ``ortune runtime``: an action on installed runtimes, and their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from ortune.verbs._shared.common import Page
from ortune.verbs._shared.spelling import Argument

FORMATS = ("text", "json", "markdown", "html")
STOPPING = ""
TABLE = "runtimes"
EXAMPLE = 'ortune.runtime("add", "1.28.0")'


@dataclass(frozen=True, kw_only=True)
class Options:
    """Manage ONNX Runtime builds with other providers or releases, each in its own environment.

    Use them with --runtime NAME. Your own environments are never changed.
    """

    action: Annotated[str, Argument("[add|list|remove]", "What to do. Default: list.")] = "list"
    names: Annotated[
        Sequence[str],
        Argument(
            "[NAME]...",
            "openvino, webgpu, qnn, cuda, a release (onnxruntime==1.22.1), a wheel (PATH.whl), a folder of native "
            "libraries (PATH), or convert-torch, -tf, -sklearn.",
        ),
    ] = ()
    report: Page = None
