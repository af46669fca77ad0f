"""ortune: where every millisecond of an ONNX model goes, and what makes it faster, proven."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ortune.api import bench, compare, doctor, lock, look, profile, report, tune
    from ortune.loader import load
    from ortune.trials.watcher import Watcher

__version__ = "0.1.0"
__all__ = [
    "Watcher",
    "__version__",
    "bench",
    "compare",
    "doctor",
    "load",
    "lock",
    "look",
    "profile",
    "report",
    "tune",
]

# Imported when first asked for: a service that only loads a bundle needs none of the tuner's dependencies.
_HOMES = {
    "bench": "ortune.api",
    "compare": "ortune.api",
    "doctor": "ortune.api",
    "load": "ortune.loader",
    "lock": "ortune.api",
    "look": "ortune.api",
    "profile": "ortune.api",
    "report": "ortune.api",
    "tune": "ortune.api",
    "Watcher": "ortune.trials.watcher",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
