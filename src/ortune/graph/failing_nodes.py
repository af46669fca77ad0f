"""The node that an error of ONNX Runtime names, and the nodes of a model that an optimised node was made from."""

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
    """A node as an error names it.

    Attributes:
        name: The name of the node; "" if it has none.
        operator: Its operator; "" if the error does not name it.
        value: The input or output of the node that the error is about; "" if it names none.
    """

    name: str
    operator: str = ""
    value: str = ""

    @property
    def label(self) -> str:
        """The node in words: "Conv node 'conv1'"."""
        kind = f"{self.operator} node" if self.operator else "node"
        return f"{kind} {self.name!r}" if self.name else f"a {kind} without a name"


def named_node(message: str) -> NamedNode | None:
    """Return the node that an error of ONNX Runtime names, or None."""
    for form in _FORMS:
        match = form.search(message)
        if match is not None:
            found = {key: text or "" for key, text in match.groupdict().items()}
            return NamedNode(
                name=found["node"], operator=found.get("operator", ""), value=found.get("value", "")
            )
    return None


def sources_by_name(model: ir.Model, node: NamedNode) -> tuple[str, ...]:
    """Return the nodes of a model that an optimised node was probably made from, by the names of both.

    ONNX Runtime names a node after one of those that it replaces, and keeps the name of the value that it makes.

    Args:
        model: The model before optimisation.
        node: A node of the optimised graph.
    """
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
    """Return whether a name is another one with a suffix or prefix of the optimiser's, as "R1_new_reshape" is."""
    if name.startswith(root):
        return not name[len(root) : len(root) + 1].isalnum()
    return name.endswith(root) and not name[: -len(root)][-1:].isalnum()
