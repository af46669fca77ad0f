"""A node is not valid in the opset that the model declares.

What it is: an operator that the declared opset does not have, or a node with an attribute or a number of inputs that
    its operator does not have in this opset.
Why it costs: ONNX Runtime refuses to load the model ("Unrecognized attribute", "No Op registered").
Evidence: the declared opset, and ONNX's definition of the operator there.
Fix and its safety: advice: export again with the opset that the node was written for, or declare that opset if all
    other nodes are valid in it.
Example: DequantizeLinear with an axis in opset 12; the axis was added in opset 13
References: ONNX documentation, "Versioning"; ONNX operator changelog.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import onnx_ir as ir
from onnx import defs

from ortune.graph.model.operators import STANDARD
from ortune.graph.nodes import scopes_of
from ortune.records import Finding
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "GRA031"

_OLDER_IN_ORT = frozenset({"LayerNormalization"})
"""Operators that ONNX Runtime supports in every opset, since it had them before ONNX."""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for each reason that nodes are invalid in their opset."""
    if facts.model is None or facts.model.in_ort_format:
        return
    model = facts.model.ir
    by_reason: dict[tuple[str, str], list[ir.Node]] = {}
    for graph, opset in scopes_of(model):
        for node in graph:
            own = node.domain in STANDARD and node.op_identifier() not in model.functions
            if own and (reason := _reason(node, opset)):
                by_reason.setdefault(reason, []).append(node)
    for (what, fix), nodes in by_reason.items():
        yield Finding(
            code=CODE,
            severity="error",
            what=f"{what}, so ONNX Runtime does not load the model: {counted(nodes)}",
            where=tuple(map(name_of, nodes)),
            fix=fix,
        )


def _reason(node: ir.Node, opset: int) -> tuple[str, str] | None:
    """Return (the fault of a node, the fix); None for valid nodes and operators unknown to ONNX."""
    op, versions = node.op_type, _versions(node.op_type)
    if not versions or opset < 1:
        return None
    own = next((version for version in reversed(versions) if version <= opset), None)
    if own is None:
        missing = f"opset {opset} has no {op}", f"export with opset {versions[0]} or newer"
        return None if op in _OLDER_IN_ORT else missing
    schema = defs.get_schema(op, own, "")
    unknown = next((name for name in node.attributes if name not in schema.attributes), None)
    if unknown is not None:
        return _of_attribute(op, unknown, opset)
    if len(node.inputs) > schema.max_input:
        what = f"{op} has at most {schema.max_input} inputs in opset {opset}"
        return what, f"export again for opset {opset}"
    return None


def _of_attribute(op: str, name: str, opset: int) -> tuple[str, str]:
    """Return (the fault, the fix) for an attribute that an operator does not have in an opset."""
    versions = _versions(op)
    having = [version for version in versions if name in defs.get_schema(op, version, "").attributes]
    if not having:
        return f"{op} has no attribute {name!r}", "remove the attribute"
    if having[0] > opset:
        return f"{op} has no {name!r} in opset {opset}", f"export with opset {having[0]} or newer"
    gone = next(version for version in versions if version > having[-1])
    fix = f"declare an opset below {gone}, or export again for opset {opset}"
    return f"{op} has no {name!r} since opset {gone}", fix


@cache
def _versions(op: str) -> tuple[int, ...]:
    """Return the opsets that define a new version of an ONNX operator, lowest first."""
    found: list[int] = []
    newest = defs.get_schema(op, "").since_version if defs.has(op, "") else 0
    while newest > 0 and defs.has(op, newest, ""):
        newest = defs.get_schema(op, newest, "").since_version
        found.append(newest)
        newest -= 1
    return tuple(reversed(found))
