"""Example models of rules: one that a rule finds, and one that it does not."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import onnx
import onnx.parser

Example = Callable[[], onnx.ModelProto]

MARK = "bad"
"""Prefix of the names in a bad model that the rule must find."""


def example(module: ModuleType, name: str) -> Example | None:
    """Return a function that makes an example model, from the module's text (``BAD``) or function (``bad``)."""
    text = getattr(module, name.upper(), None)
    if text is None:
        factory: Example | None = getattr(module, name, None)
        return factory
    return lambda: onnx.parser.parse_model(str(text))
