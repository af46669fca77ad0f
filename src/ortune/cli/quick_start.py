"""Deferred import of sympy, which dependencies import but this program rarely uses.

onnx-ir imports sympy for arithmetic on symbolic dimensions, which ortune does not use: half a second per command
(onnx-ir 1.1: 0.82 s with it, 0.22 s without). Only the program defers it, in its own process; the imports of Python
callers are not changed.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

LATER = frozenset({"sympy", "onnx_ir._symbolic_shapes"})


class _Later(MetaPathFinder):
    """Import finder that defers the execution of the modules in ``LATER`` until one of their attributes is used."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in LATER:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


def import_later() -> None:
    """Defer the import of the modules in ``LATER``, in this process and from now on."""
    sys.meta_path.insert(0, _Later())
