"""What every kind of source model can be asked, and the errors that say why one cannot be."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class Refused(Exception):
    """The source cannot be used as it is; the message says why, and ``do`` what helps."""

    def __init__(self, what: str, do: str = "") -> None:
        super().__init__(what)
        self.what, self.do = what, do


@dataclass(frozen=True)
class Input:
    """One input: its name, its element type as ONNX has it, and its shape, None where a size is open."""

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
        versions: Of the framework and its converters.
        exporters: What can convert it, the preferred one first.
        inputs: In their order.
        example: Real inputs, where the source has some.
    """

    kind: str
    versions: dict[str, str]
    exporters: Sequence[str]
    inputs: Sequence[Input]
    example: Mapping[str, Any]

    def export(
        self, exporter: str, dynamic: Mapping[str, Mapping[int, str]], opset: int, path: str
    ) -> Exported:
        """Writes an ONNX model; ``dynamic`` names open axes by input, opset 0 is the exporter's own choice."""
        ...

    def run(self, feeds: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Outputs by name, as arrays, in their order."""
        ...


def made_by(factory: str, folder: str) -> Any:
    """What the user's function ``module:function`` returns; the folder is that of the command line."""
    module, _, name = factory.partition(":")
    sys.path.insert(0, folder)
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise Refused(
            "%s cannot be imported: %s" % (factory, error),
            "name an environment that has what it imports: --source-python PATH",
        ) from error
    return function()


def onnx_type(dtype: Any) -> str:
    """The element type of a numpy array as ONNX names it."""
    name = str(dtype)
    if name.startswith(("<U", "object", "str")):
        return "string"
    return {"float32": "float", "float64": "double"}.get(name, name)
