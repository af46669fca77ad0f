"""Writes which operators ONNX Runtime itself brings, and their attributes: public names, which a skeleton may keep.

python tools/make_contrib_operators.py
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

from onnx import defs
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

PLACE = Path(__file__).resolve().parents[1] / "src" / "ortune" / "graph" / "model" / "contrib_operators.json"
OF_ONNX = {(schema.domain, schema.name) for schema in defs.get_all_schemas_with_history()}
OLD = {"ATen": {"operator", "overload_name"}, "GRUUnit": {"activations"}}
"""What ONNX once had under the standard domain, and ONNX Runtime has no more, or otherwise."""


def operators() -> dict[str, dict[str, list[str]]]:
    """By domain and operator the attributes of all its versions."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for schema in runtime.get_all_operator_schema():
        if (schema.domain, schema.name) not in OF_ONNX:
            found[schema.domain][schema.name] |= set(schema.attributes)
    for name, attributes in OLD.items():
        found[""][name] |= attributes
    return {d: {name: sorted(a) for name, a in sorted(ops.items())} for d, ops in sorted(found.items())}


def text() -> str:
    """One line an operator."""
    domains = []
    for domain, listed in operators().items():
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(' '.join(a))}" for name, a in listed.items())
        domains.append(f" {json.dumps(domain)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(domains) + "\n}\n"


if __name__ == "__main__":
    PLACE.write_text(text(), encoding="utf-8")
