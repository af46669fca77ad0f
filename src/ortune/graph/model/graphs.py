"""Iteration over an onnx-ir model: graphs, nodes and tensors, and the names of types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain

import onnx
import onnx_ir as ir

from ortune.graph.model.operators import STANDARD

MAP_TYPE = "ortune.onnx_type"
"""Key in ``Value.meta`` for a type that onnx-ir does not support (a map), as text."""

MAP_TYPE_PROTO = "ortune.onnx_type_proto"
"""Key in ``Value.meta`` for the same type as a proto, which is written when the model is saved."""

SHARES_NAME = "ortune.shares_name"
"""Key in ``Node.meta`` that marks a node with the same name as another node."""

NEVER_FED = "ortune.never_fed"
"""Key in ``Value.meta`` that marks an initializer that is a graph input only because the IR version requires it."""

_MOST_CALLS = 64
_MOST_NODES = 10_000_000


def subgraphs(node: ir.Node) -> Iterator[ir.Graph]:
    """Yield the graphs in a node's attributes, in order."""
    # Reading the dict directly takes a third of the time, and this runs for every node, many times.
    for attribute in node.attributes.data.values():
        kind = attribute.type
        if kind == ir.AttributeType.GRAPH and not attribute.is_ref():
            yield attribute.as_graph()
        elif kind == ir.AttributeType.GRAPHS and not attribute.is_ref():
            yield from attribute.as_graphs()


def own_name(node: ir.Node) -> str:
    """Return the node's name; "" if it has none, or only white space."""
    name = node.name or ""
    return name if name.strip() else ""


def name_of(node: ir.Node) -> str:
    """Return the node's name; if missing or not unique, the name of its first output, or its operator without one."""
    name = "" if SHARES_NAME in node.meta else own_name(node)
    return name or next((value.name for value in node.outputs if value.name), "") or node.op_type


def mark_shared_names(model: ir.Model) -> None:
    """Mark nodes with the same name in their ``meta``, since the name does not identify them."""
    counts = Counter(filter(None, map(own_name, nodes(model))))
    for node in nodes(model) if len(counts) < counts.total() else ():
        if counts[own_name(node)] > 1:
            node.meta[SHARES_NAME] = True


def op_set(names: str) -> frozenset[str]:
    """Return a set of operators from names separated by spaces."""
    return frozenset(names.split())


def scopes(model: ir.Model) -> list[ir.Graph | ir.Function]:
    """Return the outermost graphs: the main graph and every model-local function."""
    return [model.graph, *model.functions.values()]


def require_signatures(model: ir.Model) -> None:
    """Check that nodes of ONNX's own operators have the required inputs, outputs and attribute types.

    Raises:
        ValueError: If a node has too few inputs or outputs, or an attribute has a wrong type.
    """
    for scope in scopes(model):
        imports = scope.opset_imports
        for graph in nested(scope):
            for node in graph:
                if node.op_identifier() in model.functions:
                    continue
                needed = _signature(node.domain, node.op_type, imports.get(node.domain, 1))
                for word, there, least in (
                    ("input", node.inputs, needed.inputs),
                    ("output", node.outputs, needed.outputs),
                ):
                    if len(there) < least:
                        raise ValueError(
                            f"{node.op_type} {node.name!r} has {len(there)} {word}s, and needs {least}"
                        )
                for name, attribute in node.attributes.items():
                    kind = needed.attributes.get(name, attribute.type)
                    if attribute.type != kind:
                        raise ValueError(
                            f"{name} of {node.op_type} {node.name!r} is {attribute.type.name}, "
                            f"and has to be {kind.name}"
                        )


_KINDS = {
    getattr(onnx.defs.OpSchema.AttrType, kind.name): kind
    for kind in ir.AttributeType
    if hasattr(onnx.defs.OpSchema.AttrType, kind.name)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signature:
    """Minimum number of inputs and outputs of an operator, and the types of its attributes by name."""

    inputs: int = 0
    outputs: int = 0
    attributes: Mapping[str, ir.AttributeType] = field(default_factory=dict)


@cache
def _signature(domain: str, op_type: str, version: int) -> _Signature:
    """Return the signature of an operator; an empty one if ONNX does not define it."""
    # onnx takes the version as a C int, and a file may contain any number.
    if not 0 < version < 1 << 31 or not onnx.defs.has(op_type, version, domain):
        return _Signature()
    own = onnx.defs.get_schema(op_type, version, domain)
    # Attributes of other versions are accepted, since they are not an error of the reader.
    versions = [own, newest := onnx.defs.get_schema(op_type, domain)]
    while newest.since_version > 1 and onnx.defs.has(op_type, newest.since_version - 1, domain):
        versions.append(newest := onnx.defs.get_schema(op_type, newest.since_version - 1, domain))
    kinds: dict[str, ir.AttributeType] = {}
    for schema in versions:
        for name, attribute in schema.attributes.items():
            kinds.setdefault(name, _KINDS[attribute.type])
    return _Signature(inputs=own.min_input, outputs=own.min_output, attributes=kinds)


def require_finite(model: ir.Model) -> None:
    """Check that function calls terminate.

    Raises:
        ValueError: If a function calls itself, or calls are too deep or too many.
    """
    size: dict[ir.OperatorIdentifier, int] = {}  # nodes of a function and all that it calls
    depth: dict[ir.OperatorIdentifier, int] = {}
    functions = model.functions
    for first in functions:
        # An explicit stack, since recursion could end in RecursionError before the depth is known.
        way = [(first, iter(_functions_called(model, functions[first])))]
        while way:
            name, calls = way[-1]
            inner = next((call for call in calls if call not in size), None)
            if inner is None:
                own = _functions_called(model, functions[name])
                depth[name] = 1 + max((depth[call] for call in own), default=0)
                n_nodes = sum(1 for graph in nested(functions[name]) for _ in graph)
                # Capped above the limit: 64 functions that each call the next one twice are 2^64 nodes.
                size[name] = min(n_nodes + sum(size[call] for call in own), _MOST_NODES + 1)
                way.pop()
            elif any(inner == outer for outer, _ in way):
                raise ValueError(f"the function {inner[1]!r} calls itself")
            else:
                way.append((inner, iter(_functions_called(model, functions[inner]))))
    if max(depth.values(), default=0) > _MOST_CALLS:
        raise ValueError(f"functions call each other more than {_MOST_CALLS} deep")
    main = [node.op_identifier() for graph in nested(model.graph) for node in graph]
    if sum(size.get(name, 0) for name in main) > _MOST_NODES:
        raise ValueError(f"with its functions written out it has more than {_MOST_NODES:,} nodes")


def _functions_called(model: ir.Model, function: ir.Function) -> list[ir.OperatorIdentifier]:
    """Return the functions that a function calls, once per call."""
    names = (node.op_identifier() for graph in nested(function) for node in graph)
    return [name for name in names if name in model.functions]


class Listing:
    """The graphs and nodes of an unchanging model, listed once.

    Attributes:
        model: The model.
        graphs: For each outermost graph, the graph and its subgraphs, in the order of ``nested``.
        nodes: For each outermost graph, the nodes of these graphs.
    """

    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self.graphs = {scope: tuple(_nested(scope)) for scope in scopes(model)}
        self.nodes = {
            scope: tuple(node for graph in listed for node in graph) for scope, listed in self.graphs.items()
        }

    @cached_property
    def places(self) -> dict[str, list[tuple[int, ir.Node]]]:
        """(position, node) pairs by operator of the ONNX domain; positions count in the order of ``nodes``."""
        by_operator: dict[str, list[tuple[int, ir.Node]]] = {}
        for place, node in enumerate(chain.from_iterable(self.nodes.values())):
            if node.domain in STANDARD:
                by_operator.setdefault(node.op_type, []).append((place, node))
        return by_operator


_listing: ContextVar[Listing | None] = ContextVar("listing", default=None)


@contextmanager
def unchanged(model: ir.Model) -> Iterator[None]:
    """List the nodes of a model once for all queries in the block, which must not change the model."""
    token = _listing.set(Listing(model))
    try:
        yield
    finally:
        _listing.reset(token)


def listing_of(model: ir.Model) -> Listing | None:
    """Return the listing of a model inside ``unchanged``; None for any other model."""
    listing = _listing.get()
    return listing if listing is not None and listing.model is model else None


def graphs(model: ir.Model, *, functions: bool = True) -> Iterator[ir.Graph | ir.Function]:
    """Yield every graph: the main graph, then functions; subgraphs directly follow the graph that contains them."""
    for scope in scopes(model) if functions else [model.graph]:
        yield from nested(scope)


def nested(graph: ir.Graph | ir.Function) -> Iterator[ir.Graph | ir.Function]:
    """Return an iterator over a graph and all of its subgraphs."""
    listing = _listing.get()
    return iter(listing.graphs[graph]) if listing and graph in listing.graphs else _nested(graph)


def _nested(graph: ir.Graph | ir.Function) -> Iterator[ir.Graph | ir.Function]:
    yield graph
    for node in graph:
        if not node.attributes.data:  # most nodes: not even a generator is created
            continue
        for inner in subgraphs(node):
            yield from _nested(inner)


def nodes(model: ir.Model, *, functions: bool = True) -> Iterator[ir.Node]:
    """Return an iterator over the nodes of all graphs, in the order of ``graphs``."""
    listing = listing_of(model)
    if listing is not None:
        return chain.from_iterable(listing.nodes.values() if functions else [listing.nodes[model.graph]])
    return (node for graph in graphs(model, functions=functions) for node in graph)


def tensors(model: ir.Model) -> Iterator[ir.TensorProtocol]:
    """Yield every tensor stored in the model: initializers, then tensors in node attributes, graph by graph."""
    for graph in graphs(model):
        yield from _stored(graph, graph)


def parameters(model: ir.Model) -> Iterator[ir.TensorProtocol]:
    """Yield, graph by graph, every initializer and every tensor of a Constant node, which may also hold a weight."""
    for graph in graphs(model):
        yield from _stored(graph, (node for node in graph if node.op_type == "Constant"))


def _stored(graph: ir.Graph | ir.Function, holders: Iterable[ir.Node]) -> Iterator[ir.TensorProtocol]:
    """Yield a graph's initializers, then the tensors in the attributes of the nodes ``holders``."""
    if isinstance(graph, ir.Graph):
        yield from (v.const_value for v in graph.initializers.values() if v.const_value is not None)
    for node in holders:
        for attribute in node.attributes.values():
            yield from attribute_tensors(attribute)


def tensor_value(attribute: ir.Attr) -> ir.TensorProtocol:
    """Return the tensor of an attribute.

    ``Attr.as_tensor`` also checks the value against the whole protocol, which took a fifth of the time of rewrites of
    small graphs (Python 3.11).

    Raises:
        TypeError: If the attribute is not a tensor.
    """
    if attribute.type != ir.AttributeType.TENSOR or attribute.is_ref():
        raise TypeError(f"attribute {attribute.name!r} holds no tensor: {attribute.type}")
    tensor: ir.TensorProtocol = attribute.value
    return tensor


def attribute_tensors(attribute: ir.Attr) -> Iterable[ir.TensorProtocol]:
    """Return the tensors of an attribute; empty for other attributes and references to a function's parameter."""
    if attribute.is_ref():
        return ()
    if attribute.type == ir.AttributeType.TENSOR:
        return (tensor_value(attribute),)
    if attribute.type == ir.AttributeType.TENSORS:
        return tuple(attribute.value)
    return ()


FREE_INITIALIZERS_IR = 4
"""First IR version in which initializers need not be graph inputs."""


def mark_never_fed(model: ir.Model) -> None:
    """Mark initializers among the inputs as constants in their ``meta``, below IR version 4."""
    for value in model.graph.inputs if model.ir_version < FREE_INITIALIZERS_IR else ():
        if value.is_initializer():
            value.meta[NEVER_FED] = True


def in_order(model: ir.Model) -> bool:
    """Return whether every node follows all nodes whose outputs it reads, also in its subgraphs."""
    return all(_in_order(graph, set()) for graph in scopes(model))


def _in_order(graph: ir.Graph | ir.Function, visited: set[ir.Node]) -> bool:
    for node in graph:
        for value in node.inputs:
            producer = value.producer() if value is not None else None
            if producer is not None and producer not in visited:
                return False
        if not all(_in_order(inner, visited) for inner in subgraphs(node)):
            return False
        visited.add(node)
    return True


def type_text(value: ir.Value) -> str:
    """Return a value's declared type as text, such as "float", "seq(float)" or "map(int64,float)"; "" without one."""
    in_words = value.meta.get(MAP_TYPE)
    if isinstance(in_words, str):
        return in_words
    return "" if value.type is None else _type_text(value.type)


def _type_text(kind: ir.TypeProtocol) -> str:
    if isinstance(kind, ir.SequenceType):
        return f"seq({_type_text(kind.elem_type)})"
    if isinstance(kind, ir.OptionalType):
        return f"optional({_type_text(kind.elem_type)})"
    name = str(kind.dtype.name).lower()
    return f"sparse({name})" if isinstance(kind, ir.SparseTensorType) else name


def stored_bytes(tensor: ir.TensorProtocol) -> int:
    """Return the size of a tensor in bytes, from its element type; 0 for strings, which have no fixed size."""
    if tensor.dtype == ir.DataType.STRING:
        return 0
    return (tensor.size * tensor.dtype.bitwidth + 7) // 8


def type_name(dtype: ir.DataType) -> str:
    """Return the common name of an element type: "float32", "int8", "float64"."""
    name = str(dtype.name).lower()
    return {"float": "float32", "double": "float64"}.get(name, name)


def element_type(number: int) -> ir.DataType | None:
    """Convert an ONNX type number to the element type; return None for an unknown number."""
    return ir.DataType(number) if number and number in ir.DataType.__members__.values() else None
