"""Formatting of results for terminal, HTML, JSON, GitHub and Markdown."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class _RoomAndVerb(ModuleType):
    """Module type that makes this package callable, because its import replaces the function ``ortune.show``."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call ``ortune.show(...)``, the function of ``ortune report``."""
        return importlib.import_module("ortune.api").function("report")(*args, **kwargs)


sys.modules[__name__].__class__ = _RoomAndVerb
