"""Public operators and attributes, from ONNX's schemas and ONNX Runtime's contributed operators."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from onnx import defs

STANDARD = frozenset({"", "ai.onnx"})
PUBLIC_DOMAINS = STANDARD | {
    "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview", "ai.onnx.preview.training", "com.microsoft",
    "com.microsoft.nchwc", "com.microsoft.experimental", "com.ms.internal.nhwc", "ai.onnx.contrib",
}  # fmt: skip


def attributes(domain: str, op_type: str) -> Mapping[str, int] | None:
    """Return the attributes of all versions of a public operator, with their types; None for other operators.

    A type is 0 if it is unknown, or differs between versions.
    """
    return _schemas().get(("" if domain in STANDARD else domain, op_type))


@cache
def _schemas() -> dict[tuple[str, str], dict[str, int]]:
    schemas: dict[tuple[str, str], dict[str, int]] = {}
    for schema in defs.get_all_schemas_with_history():
        attributes = schemas.setdefault((schema.domain, schema.name), {})
        for name, attribute in schema.attributes.items():
            kind = int(attribute.type.value)  # type: ignore[attr-defined]
            attributes[name] = kind if attributes.get(name, kind) == kind else 0  # differs between versions
    contrib = json.loads(files(__package__).joinpath("contrib_operators.json").read_text(encoding="utf-8"))
    for domain, operators in contrib.items():
        for name, words in operators.items():
            attributes = schemas.setdefault((domain, name), {})
            for word in words.split():
                attributes.setdefault(word, 0)
    return schemas


def dotted(domain: str, op_type: str) -> str:
    """Return an operator's name with its domain, if there is one: "Conv", "com.microsoft.FusedConv"."""
    return f"{domain}.{op_type}" if domain else op_type
