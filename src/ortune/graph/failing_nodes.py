"""The node named in an ONNX Runtime error, and the original nodes that an optimized node replaces."""

from __future__ import annotations

import re
from dataclasses import dataclass

import onnx_ir as ir

from ortune.graph.mapping.names import branches, cast_value, node_names, without_token
from ortune.graph.model.graphs import graphs

_RUNNING = re.compile(r"while running (?P<operator>\S+) node\. Name:'(?P<node>[^']*)'")
_INFERRED = re.compile(r"Node \((?P<node>[^)]*)\) Op \((?P<operator>\w+)\)")
_NO_KERNEL = re.compile(r"for (?P<operator>\w+)\(\d+\) node with name '(?P<node>[^']*)'")
_TYPED = re.compile(
    r"\((?P<value>[^()]*)\) of (?:operator \((?P<operator>\w+)\) in )?node \((?P<node>[^)]*)\)"
)
_OTHERS = (
    re.compile(r"of node:?\s+name[:=]?\s*'?(?P<node>[^\s']+)"),
    re.compile(r"\(node:?\s*'(?P<node>[^']*)'"),
    re.compile(r"[Nn]ode:? ?'?\((?P<node>[^)]*)\)"),
)
_FORMS = (_RUNNING, _INFERRED, _NO_KERNEL, _TYPED, *_OTHERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedNode:
    """The node named in an error.

    Attributes:
        name: The name of the node; "" if it has none.
        operator: The operator; "" if the error does not contain it.
        value: The input or output that the error refers to; "" if there is none.
    """

    name: str
    operator: str = ""
    value: str = ""

    @property
    def label(self) -> str:
        """Node description for messages, such as "Conv node 'conv1'"."""
        kind = f"{self.operator} node" if self.operator else "node"
        return f"{kind} {self.name!r}" if self.name else f"a {kind} without a name"


def named_node(message: str) -> NamedNode | None:
    """Return the node named in an ONNX Runtime error, or None if no known pattern matches."""
    for form in _FORMS:
        match = form.search(message)
        if match is not None:
            found = {key: text or "" for key, text in match.groupdict().items()}
            return NamedNode(
                name=found["node"], operator=found.get("operator", ""), value=found.get("value", "")
            )
    return None


def sources_by_name(model: ir.Model, node: NamedNode) -> tuple[str, ...]:
    """Return the names (or operators, if unnamed) of the original nodes that an optimized node probably replaces."""
    nodes = [own for graph in graphs(model) for own in graph]
    by_name = {own.name: own for own in nodes if own.name}
    plain = branches(without_token(node.name))[1]
    root = next((name for name in node_names(plain, copies=True) if name in by_name), "")
    root = root or max((name for name in by_name if _derived(plain, name)), key=len, default="")
    value = cast_value(node.name) or node.value
    makers = (
        [own.name or own.op_type for own in nodes if value in {v.name for v in own.outputs}] if value else []
    )
    wanted = {root, *makers} - {""}
    return tuple(own.name or own.op_type for own in nodes if (own.name or own.op_type) in wanted)


def _derived(name: str, root: str) -> bool:
    """Return whether a name is ``root`` with a suffix or prefix added by the optimizer, such as "R1_new_reshape"."""
    if name.startswith(root):
        return not name[len(root) : len(root) + 1].isalnum()
    return name.endswith(root) and not name[: -len(root)][-1:].isalnum()
