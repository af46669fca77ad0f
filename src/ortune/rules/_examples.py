"""Models that a rule shows: what it fires on, and what it is silent on."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import onnx
import onnx.parser

Example = Callable[[], onnx.ModelProto]

MARK = "bad"
"""What a rule marks in its bad model has names that begin so."""


def example(module: ModuleType, name: str) -> Example | None:
    """Return the model that a rule's file gives as text in ``BAD`` or ``GOOD``, or makes in ``bad`` or ``good``."""
    text = getattr(module, name.upper(), None)
    if text is None:
        factory: Example | None = getattr(module, name, None)
        return factory
    return lambda: onnx.parser.parse_model(str(text))
