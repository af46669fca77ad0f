"""Interface of every kind of source model, and the errors of unusable ones."""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

SMALLER = "export the model with smaller sizes"


class SourceRefused(Exception):
    """The source cannot be used as it is; the message gives the reason, and ``do`` the fix."""

    def __init__(self, what: str, do: str = "") -> None:
        super().__init__(what)
        self.what, self.do = what, do


@dataclass(frozen=True)
class Input:
    """One input: its name, its ONNX element type, and its shape with None for dynamic sizes."""

    name: str
    type: str
    shape: Sequence[int | None]


@dataclass(frozen=True)
class ExportResult:
    """Input names and warnings from an exporter that has written an ONNX model.

    Attributes:
        inputs: Names of the ONNX model's inputs, by the names of the source's inputs.
        messages: Warnings of the exporter.
    """

    inputs: Mapping[str, str] = field(default_factory=dict)
    messages: Sequence[str] = ()


class Source(Protocol):
    """An opened source model.

    Attributes:
        kind: Kind of the source, in words.
        framework: Its framework with the version.
        styles: Ways to run it, the usual one first; ("",) if there is only one.
        left_out: Why another way to run it is unavailable; "" if all are available.
        versions: Versions of the framework and its converters.
        exporters: Names of usable exporters, the preferred one first.
        inputs: Inputs in order.
        example: Real inputs, if the source has any.
    """

    kind: str
    framework: str
    styles: Sequence[str]
    left_out: str
    versions: dict[str, str]
    exporters: Sequence[str]
    inputs: Sequence[Input]
    example: Mapping[str, Any]

    def export(
        self, exporter: str, dynamic: Mapping[str, Mapping[int, str]], opset: int, path: str
    ) -> ExportResult:
        """Write an ONNX model; ``dynamic`` names dynamic axes by input, opset 0 is the exporter's default."""
        ...

    def threads(self) -> int | None:
        """Return the threads of one operator, as the framework reports them; None if it does not."""
        ...

    def prepared(self, feeds: Mapping[str, Any], style: str = "") -> Callable[[], Any]:
        """Return a function that runs these inputs once, in one of the styles, after preparing them."""
        ...

    def outputs_of(self, result: Any, feeds: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return the outputs of a run as (name, array), in order."""
        ...


def require_size(name: str, sizes: Sequence[int | None]) -> None:
    """Refuse a tensor with more elements than the machine has bytes; computing it takes hours even if not stored.

    Args:
        name: Name of the tensor.
        sizes: Its sizes; None for a dynamic one, which counts as 1.

    Raises:
        SourceRefused: The tensor is larger.
    """
    # A negative size, which the framework refuses, must not hide the others.
    digits = sum(math.log10(abs(size or 1)) for size in sizes)
    if digits > math.log10(_memory_bytes()):
        what = (
            "the model computes a tensor of 1e%d elements, which this machine cannot hold: %.100r of shape %s"
        )
        shape = "x".join("?" if size is None else str(size)[:20] for size in sizes[:8])
        raise SourceRefused(what % (int(digits), name, shape), SMALLER)


def _memory_bytes() -> float:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no such call
        return math.inf


def made_by_function(factory: str, folder: str) -> Any:
    """Import the user's function ``module:function``, with ``folder`` on the import path, and return its result."""
    module, _, name = factory.partition(":")
    sys.path.insert(0, folder)
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise SourceRefused(
            "%s cannot be imported: %s" % (factory, error),
            "pass an environment with these packages: --source-python PATH",
        ) from error
    return function()


def onnx_type(dtype: Any) -> str:
    """Return the ONNX name of a numpy array's element type."""
    name = str(dtype)
    if name.startswith(("<U", "object", "str")):
        return "string"
    return {"float32": "float", "float64": "double"}.get(name, name)
