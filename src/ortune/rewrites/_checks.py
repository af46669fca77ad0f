"""Looking at a model before and after a rewrite: what differs, and whether it still hangs together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from ortune.model.graphs import FREE_INITIALIZERS_IR, attribute_tensors, graphs, scopes, subgraphs

Signature = tuple[object, ...]
Names = tuple[dict[str, ir.Value], ...]

SMALL_BYTES = 1024
"""Tensors up to this are compared by content where they cannot be compared by identity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Everything of a model that is written into its file, but for the bytes of large tensors.

    Attributes:
        nodes: One signature a node, in order; metadata is left out, since provenance is no change.
        rest: Inputs, outputs, initializers and shapes of every graph, versions, functions.
        held: The tensors seen, kept alive so that their identities stay their own.
    """

    nodes: tuple[Signature, ...]
    rest: tuple[Signature, ...]
    held: tuple[object, ...] = field(compare=False, repr=False)

    @classmethod
    def of(cls, model: ir.Model, *, by_identity: bool = True) -> Picture:
        """The picture of a model.

        Args:
            model: Is not changed, and its weights are not read.
            by_identity: Tensors are the same when they are the same object: right for a model that is changed
                in place. Else small ones are compared by content, and large ones by type and shape.
        """
        held: list[object] = []
        found, nodes = list[Signature](), list[Signature]()
        for graph in graphs(model):
            own = list(graph)
            found.append(_graph_signature(graph, own, held, by_identity))
            nodes += [node_signature(node, held, by_identity) for node in own]
        versions = (
            model.ir_version,
            tuple(sorted(model.opset_imports.items())),
            tuple(sorted(model.metadata_props.items())),
            tuple(model.functions),
        )
        return cls(nodes=tuple(nodes), rest=(versions, *found), held=tuple(held))

    def new_nodes(self, model: ir.Model, *, by_identity: bool = True) -> list[ir.Node]:
        """The nodes of ``model`` that are not in this picture: new, or changed since."""
        known, held = set(self.nodes), list[object]()
        return [
            node
            for graph in graphs(model)
            for node in graph
            if node_signature(node, held, by_identity) not in known
        ]


def node_signature(node: ir.Node, held: list[object], by_identity: bool) -> Signature:
    """What a node is: operator, names and attributes; what lies in its subgraphs are nodes of their own."""
    return (
        node.domain,
        node.op_type,
        node.overload,
        node.name,
        tuple([None if value is None else value.name for value in node.inputs]),
        tuple([value.name for value in node.outputs]),
        tuple([_attribute_signature(a, held, by_identity) for _, a in sorted(node.attributes.data.items())]),
    )


def _attribute_signature(attribute: ir.Attr, held: list[object], by_identity: bool) -> Signature:
    start = (attribute.name, attribute.type, attribute.ref_attr_name)
    if attribute.is_ref() or attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
        return start
    if attribute.type in (ir.AttributeType.TENSOR, ir.AttributeType.TENSORS):
        return (*start, *(_tensor_signature(t, held, by_identity) for t in attribute_tensors(attribute)))
    return (*start, repr(attribute.value))


def _tensor_signature(tensor: ir.TensorProtocol | None, held: list[object], by_identity: bool) -> Signature:
    if tensor is None:
        return ()
    if by_identity:
        held.append(tensor)
        return (tensor.name, id(tensor))
    start = (tensor.name, tensor.dtype, tuple(tensor.shape.numpy()))
    if tensor.dtype == ir.DataType.STRING or tensor.nbytes > SMALL_BYTES:
        return start
    return (*start, tensor.tobytes())


def _graph_signature(
    graph: ir.Graph | ir.Function, nodes: Sequence[ir.Node], held: list[object], by_identity: bool
) -> Signature:
    stored = graph.initializers.values() if isinstance(graph, ir.Graph) else ()
    return (
        graph.name,
        _values_signature(graph.inputs),
        _values_signature(graph.outputs),
        tuple((v.name, _tensor_signature(v.const_value, held, by_identity)) for v in stored),
        _values_signature(value for node in nodes for value in node.outputs),
    )


def _values_signature(values: Iterable[ir.Value]) -> Signature:
    return tuple([(v.name, repr(v.type), None if v.shape is None else str(v.shape)) for v in values])


def problem(model: ir.Model) -> str:
    """The first reason why a model does not hang together, one clause; "" when it does."""
    if model.ir_version < FREE_INITIALIZERS_IR and any(
        not value.is_graph_input() for value in model.graph.initializers.values()
    ):
        return f"IR version {model.ir_version} wants every initializer among the graph inputs"
    for scope in scopes(model):
        domains = model.opset_imports if isinstance(scope, ir.Graph) else scope.opset_imports
        found = _problem(scope, (), domains)
        if found:
            return found
    return ""


def _problem(graph: ir.Graph | ir.Function, outside: Names, domains: dict[str, int]) -> str:
    """``outside`` holds the values that can be read around the graph, the nearest first."""
    initializers = graph.initializers if isinstance(graph, ir.Graph) else {}
    for name, value in initializers.items():
        if value.const_value is None or value.name != name:
            return f"the initializer {name!r} has no value"
    start = [*graph.inputs, *(v for v in initializers.values() if not v.is_graph_input())]
    own: dict[str, ir.Value] = {}
    visible = (own, *outside)

    def add(values: Iterable[ir.Value], taken: Names) -> str:
        for value in values:
            if any(value.name in each for each in taken):
                return f"the name {value.name!r} is used twice"
            if value.name:
                own[value.name] = value
        return ""

    def is_read(value: ir.Value) -> bool:
        """Whether it is what its name stands for here, and not one that is nearer."""
        return next((each[value.name] for each in visible if value.name in each), None) is value

    def walk() -> str:
        # Inputs and weights may be called like what they hide.
        found = add(start, (own,))
        for node in graph:
            if found:
                return found
            if node.domain not in domains and domains:
                return f"{node.op_type} is of the domain {node.domain!r}, which the model does not import"
            for value in node.inputs:
                if value is not None and not is_read(value):
                    return f"{node.op_type} {node.name or ''!r} reads {value.name!r}, which nothing before it makes"
            inner = (_problem(g, visible, domains) for g in subgraphs(node))
            found = next(filter(None, inner), "") or add(node.outputs, visible)
        return found or next(
            (f"nothing makes the output {v.name!r}" for v in graph.outputs if not is_read(v)), ""
        )

    return walk()
