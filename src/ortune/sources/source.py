"""What every kind of source model can be asked, and the errors that say why one cannot be."""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

SMALLER = "export the model with smaller sizes"


class Refused(Exception):
    """The source cannot be used as it is; the message says why, and ``do`` what helps."""

    def __init__(self, what: str, do: str = "") -> None:
        super().__init__(what)
        self.what, self.do = what, do


@dataclass(frozen=True)
class Input:
    """One input: its name, its element type as ONNX has it, and its shape, None if a size is open."""

    name: str
    type: str
    shape: Sequence[int | None]


@dataclass(frozen=True)
class Exported:
    """What an exporter did.

    Attributes:
        inputs: The model's inputs, by the source's.
        messages: What it warned of.
    """

    inputs: Mapping[str, str] = field(default_factory=dict)
    messages: Sequence[str] = ()


class Source(Protocol):
    """An opened source model.

    Attributes:
        kind: What it is, in words.
        framework: What runs it, with its version.
        styles: The ways to run it, the usual one first; ("",) where there is one.
        left_out: Why another way is not there, "" if none is missing.
        versions: Of the framework and its converters.
        exporters: What can convert it, the preferred one first.
        inputs: In their order.
        example: Real inputs, where the source has some.
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
    ) -> Exported:
        """Write an ONNX model; ``dynamic`` names open axes by input, opset 0 is the exporter's own choice."""
        ...

    def threads(self) -> int | None:
        """Return threads that one operator may use, as the framework says; None if it does not."""
        ...

    def prepared(self, feeds: Mapping[str, Any], style: str = "") -> Callable[[], Any]:
        """Return one run on these inputs, in one of the styles; what is done once for all runs is done here."""
        ...

    def outputs_of(self, result: Any, feeds: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return the outputs of a run on these inputs by name, as arrays, in their order."""
        ...


def require_size(name: str, sizes: Sequence[int | None]) -> None:
    """Refuse a tensor of more elements than this machine has bytes: to compute it takes hours, even if none is stored.

    Args:
        name: Of the tensor.
        sizes: None where a size is open, which counts as 1.

    Raises:
        Refused: It is larger.
    """
    # A negative size, which the framework refuses, must not hide the others.
    digits = sum(math.log10(abs(size or 1)) for size in sizes)
    if digits > math.log10(_memory_bytes()):
        what = (
            "the model computes a tensor of 1e%d elements, which this machine cannot hold: %.100r of shape %s"
        )
        shape = "x".join("?" if size is None else str(size)[:20] for size in sizes[:8])
        raise Refused(what % (int(digits), name, shape), SMALLER)


def _memory_bytes() -> float:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no such call
        return math.inf


def made_by(factory: str, folder: str) -> Any:
    """Return what the user's function ``module:function`` returns; the folder is that of the command line."""
    module, _, name = factory.partition(":")
    sys.path.insert(0, folder)
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise Refused(
            "%s cannot be imported: %s" % (factory, error),
            "pass an environment with these packages: --source-python PATH",
        ) from error
    return function()


def onnx_type(dtype: Any) -> str:
    """Return the element type of a numpy array as ONNX names it."""
    name = str(dtype)
    if name.startswith(("<U", "object", "str")):
        return "string"
    return {"float32": "float", "float64": "double"}.get(name, name)
