"""ortune: where every millisecond of an ONNX model goes, and what makes it faster, proven."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"
# Imported on first use: a service that only loads a bundle needs none of the tuner's dependencies.
_HOMES = {
    "Answer": "ortune.answer",
    "OrtuneError": "ortune.errors",
    "load": "ortune.loader",
    "Watcher": "ortune.measuring.watcher",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name == "__all__":
        return ["__version__", *_HOMES, *_verbs()]
    if name in _verbs():
        return importlib.import_module("ortune.api").function(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _verbs() -> tuple[str, ...]:
    names: tuple[str, ...] = importlib.import_module("ortune.api").verbs()
    return names


def __dir__() -> list[str]:
    return sorted(__getattr__("__all__"))
