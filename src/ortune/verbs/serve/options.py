"""Options of ``ortune serve``: those of ``ortune bench`` for a browser on another device."""

from __future__ import annotations

from dataclasses import dataclass

from ortune.catalogue.providers import WEB_WASM as WASM
from ortune.verbs._shared.browsers import Listening
from ortune.verbs._shared.common import Target
from ortune.verbs._shared.groups import OneBenchOptions

FORMATS = ("text", "json", "markdown", "html")
STOPPING = "stopping after this process; results so far will be shown. Ctrl-C again stops immediately"
TABLE = "rows"
EXAMPLE = 'ortune.serve("model.onnx", address="192.168.1.20")'


@dataclass(frozen=True, kw_only=True)
class Options(Listening, OneBenchOptions):
    """How fast is this model in a browser on a phone or another machine?

    Shows a URL to open there, then measures like bench. The URL contains a secret token.
    """

    target: Target = WASM.target
