"""What a session found, in words and formats: terminal, HTML, JSON, GitHub and Markdown."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class _RoomAndVerb(ModuleType):
    """This folder bears a verb's name, and Python binds ``ortune.show`` to it once anything in it is imported."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """``ortune.show(...)`` is the verb all the same."""
        return importlib.import_module("ortune.api").function("report")(*args, **kwargs)


sys.modules[__name__].__class__ = _RoomAndVerb
