"""Walking an onnx-ir model: every graph in it, its nodes and tensors, and what a value's type is called."""

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
"""Key in ``Value.meta`` for the type in words where onnx-ir has no type for it (maps)."""

MAP_TYPE_PROTO = "ortune.onnx_type_proto"
"""Key in ``Value.meta`` for that type itself, so that it can be written again."""

SHARES_NAME = "ortune.shares_name"
"""Key in ``Node.meta`` of a node whose name is another node's too."""

NEVER_FED = "ortune.never_fed"
"""Key in ``Value.meta`` of an initializer that is a graph input because its IR version asks for it: none can be fed."""

_MOST_CALLS = 64
_MOST_NODES = 10_000_000


def subgraphs(node: ir.Node) -> Iterator[ir.Graph]:
    """Yield the graphs in a node's attributes, in order."""
    # Of the dict itself, in a third of the time: this is asked of every node, over and over.
    for attribute in node.attributes.data.values():
        kind = attribute.type
        if kind == ir.AttributeType.GRAPH and not attribute.is_ref():
            yield attribute.as_graph()
        elif kind == ir.AttributeType.GRAPHS and not attribute.is_ref():
            yield from attribute.as_graphs()


def own_name(node: ir.Node) -> str:
    """Return the node's name; "" if it has none, or one of white space alone, which names nothing."""
    name = node.name or ""
    return name if name.strip() else ""


def name_of(node: ir.Node) -> str:
    """Return the node's name; of one without, or whose name others of its model have too, that of its first output."""
    name = "" if SHARES_NAME in node.meta else own_name(node)
    return name or next((value.name for value in node.outputs if value.name), "") or node.op_type


def mark_shared_names(model: ir.Model) -> None:
    """Mark in the ``meta`` of nodes that others have their names, so the name does not identify a node."""
    counts = Counter(filter(None, map(own_name, nodes(model))))
    for node in nodes(model) if len(counts) < counts.total() else ():
        if counts[own_name(node)] > 1:
            node.meta[SHARES_NAME] = True


def op_set(names: str) -> frozenset[str]:
    """Return a set of operators, written as one text with spaces."""
    return frozenset(names.split())


def scopes(model: ir.Model) -> list[ir.Graph | ir.Function]:
    """Return the outermost graphs: the main one and every model-local function."""
    return [model.graph, *model.functions.values()]


def require_signatures(model: ir.Model) -> None:
    """Check that nodes of ONNX's own operators have the inputs, outputs and kinds of attributes that these need.

    Raises:
        ValueError: One has too few, or an attribute of another kind.
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
    """What a node of an operator has: the least inputs and outputs, and the kinds of its attributes by name."""

    inputs: int = 0
    outputs: int = 0
    attributes: Mapping[str, ir.AttributeType] = field(default_factory=dict)


@cache
def _signature(domain: str, op_type: str, version: int) -> _Signature:
    """Return what a node of an operator needs; nothing if ONNX does not know it."""
    # onnx takes the version as a C int, and a file may hold any.
    if not 0 < version < 1 << 31 or not onnx.defs.has(op_type, version, domain):
        return _Signature()
    own = onnx.defs.get_schema(op_type, version, domain)
    # What another version alone has is no mistake that is made here, and it may be read.
    versions = [own, newest := onnx.defs.get_schema(op_type, domain)]
    while newest.since_version > 1 and onnx.defs.has(op_type, newest.since_version - 1, domain):
        versions.append(newest := onnx.defs.get_schema(op_type, newest.since_version - 1, domain))
    kinds: dict[str, ir.AttributeType] = {}
    for schema in versions:
        for name, attribute in schema.attributes.items():
            kinds.setdefault(name, _KINDS[attribute.type])
    return _Signature(inputs=own.min_input, outputs=own.min_output, attributes=kinds)


def require_finite(model: ir.Model) -> None:
    """Check that functions end when they are called.

    Raises:
        ValueError: One calls itself, or they call each other too deep or too often.
    """
    size: dict[ir.OperatorIdentifier, int] = {}  # nodes of a function with those of all that it calls
    depth: dict[ir.OperatorIdentifier, int] = {}
    functions = model.functions
    for first in functions:
        # A stack of its own: recursion as deep as a file likes would end in RecursionError before the depth
        # is known.
        way = [(first, iter(_called(model, functions[first])))]
        while way:
            name, calls = way[-1]
            inner = next((call for call in calls if call not in size), None)
            if inner is None:
                own = _called(model, functions[name])
                depth[name] = 1 + max((depth[call] for call in own), default=0)
                n_nodes = sum(1 for graph in nested(functions[name]) for _ in graph)
                # Capped above the limit: 64 functions that each call the next one twice are 2^64 nodes.
                size[name] = min(n_nodes + sum(size[call] for call in own), _MOST_NODES + 1)
                way.pop()
            elif any(inner == outer for outer, _ in way):
                raise ValueError(f"the function {inner[1]!r} calls itself")
            else:
                way.append((inner, iter(_called(model, functions[inner]))))
    if max(depth.values(), default=0) > _MOST_CALLS:
        raise ValueError(f"functions call each other more than {_MOST_CALLS} deep")
    main = [node.op_identifier() for graph in nested(model.graph) for node in graph]
    if sum(size.get(name, 0) for name in main) > _MOST_NODES:
        raise ValueError(f"with its functions written out it has more than {_MOST_NODES:,} nodes")


def _called(model: ir.Model, function: ir.Function) -> list[ir.OperatorIdentifier]:
    """Return the functions that a function calls, once for each time."""
    names = (node.op_identifier() for graph in nested(function) for node in graph)
    return [name for name in names if name in model.functions]


class Listing:
    """The graphs and nodes of a model that nobody changes, listed once.

    Attributes:
        model: The model.
        graphs: By each outermost graph, itself and the graphs in it, in the order of ``nested``.
        nodes: By each outermost graph, the nodes of all these.
    """

    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self.graphs = {scope: tuple(_nested(scope)) for scope in scopes(model)}
        self.nodes = {
            scope: tuple(node for graph in listed for node in graph) for scope, listed in self.graphs.items()
        }

    @cached_property
    def places(self) -> dict[str, list[tuple[int, ir.Node]]]:
        """The nodes of each operator of the ONNX domain, each with its place in the order of ``nodes``."""
        by_operator: dict[str, list[tuple[int, ir.Node]]] = {}
        for place, node in enumerate(chain.from_iterable(self.nodes.values())):
            if node.domain in STANDARD:
                by_operator.setdefault(node.op_type, []).append((place, node))
        return by_operator


_listing: ContextVar[Listing | None] = ContextVar("listing", default=None)


@contextmanager
def unchanged(model: ir.Model) -> Iterator[None]:
    """List the nodes of a model once for all that look at it, none of which may change it."""
    token = _listing.set(Listing(model))
    try:
        yield
    finally:
        _listing.reset(token)


def listing_of(model: ir.Model) -> Listing | None:
    """Return the listing of a model that is ``unchanged``; None for any other."""
    listing = _listing.get()
    return listing if listing is not None and listing.model is model else None


def graphs(model: ir.Model, *, functions: bool = True) -> Iterator[ir.Graph | ir.Function]:
    """Yield every graph: the main one, subgraphs right after the graph they lie in, then model-local functions."""
    for scope in scopes(model) if functions else [model.graph]:
        yield from nested(scope)


def nested(graph: ir.Graph | ir.Function) -> Iterator[ir.Graph | ir.Function]:
    """Return a graph, and after it every graph that lies in one of its nodes."""
    listing = _listing.get()
    return iter(listing.graphs[graph]) if listing and graph in listing.graphs else _nested(graph)


def _nested(graph: ir.Graph | ir.Function) -> Iterator[ir.Graph | ir.Function]:
    yield graph
    for node in graph:
        if not node.attributes.data:  # most nodes: not even a generator is made for them
            continue
        for inner in subgraphs(node):
            yield from _nested(inner)


def nodes(model: ir.Model, *, functions: bool = True) -> Iterator[ir.Node]:
    """Return every node of every graph, in the order of ``graphs``."""
    listing = listing_of(model)
    if listing is not None:
        return chain.from_iterable(listing.nodes.values() if functions else [listing.nodes[model.graph]])
    return (node for graph in graphs(model, functions=functions) for node in graph)


def tensors(model: ir.Model) -> Iterator[ir.TensorProtocol]:
    """Yield every tensor stored in the model: initializers, then tensors in node attributes, graph by graph."""
    for graph in graphs(model):
        yield from _stored(graph, graph)


def parameters(model: ir.Model) -> Iterator[ir.TensorProtocol]:
    """Every initializer, then every tensor of a Constant node: some exporters keep the weights in these; by graph."""
    for graph in graphs(model):
        yield from _stored(graph, (node for node in graph if node.op_type == "Constant"))


def _stored(graph: ir.Graph | ir.Function, holders: Iterable[ir.Node]) -> Iterator[ir.TensorProtocol]:
    """Yield a graph's initializers, then the tensors that some of its nodes hold."""
    if isinstance(graph, ir.Graph):
        yield from (v.const_value for v in graph.initializers.values() if v.const_value is not None)
    for node in holders:
        for attribute in node.attributes.values():
            yield from attribute_tensors(attribute)


def tensor_value(attribute: ir.Attr) -> ir.TensorProtocol:
    """Return the tensor that an attribute holds.

    ``Attr.as_tensor`` does the same and holds the value against the whole protocol, which took a fifth of all the time
    that rewrites of small graphs take (Python 3.11).

    Raises:
        TypeError: It holds none.
    """
    if attribute.type != ir.AttributeType.TENSOR or attribute.is_ref():
        raise TypeError(f"attribute {attribute.name!r} holds no tensor: {attribute.type}")
    tensor: ir.TensorProtocol = attribute.value
    return tensor


def attribute_tensors(attribute: ir.Attr) -> Iterable[ir.TensorProtocol]:
    """Return the tensors that an attribute holds itself (none for a reference to a function's parameter)."""
    if attribute.is_ref():
        return ()
    if attribute.type == ir.AttributeType.TENSOR:
        return (tensor_value(attribute),)
    if attribute.type == ir.AttributeType.TENSORS:
        return tuple(attribute.value)
    return ()


FREE_INITIALIZERS_IR = 4
"""The first IR version whose initializers need not be graph inputs."""


def mark_never_fed(model: ir.Model) -> None:
    """Write into the ``meta`` of initializers among the inputs that they are constants, below IR version 4."""
    for value in model.graph.inputs if model.ir_version < FREE_INITIALIZERS_IR else ():
        if value.is_initializer():
            value.meta[NEVER_FED] = True


def in_order(model: ir.Model) -> bool:
    """Return whether every node comes after the nodes it reads from, also from inside subgraphs."""
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
    """Return a value's type in words: "float", "int64", "seq(float)", "map(int64,float)"; "" when not declared."""
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
    """Return bytes of a tensor by its element type; 0 for text, whose length is not known without reading it."""
    if tensor.dtype == ir.DataType.STRING:
        return 0
    return (tensor.size * tensor.dtype.bitwidth + 7) // 8


def type_name(dtype: ir.DataType) -> str:
    """Return an element type as people write it: "float32", "int8", "float64"."""
    name = str(dtype.name).lower()
    return {"float": "float32", "double": "float64"}.get(name, name)


def element_type(number: int) -> ir.DataType | None:
    """Return the type that ONNX numbers so; None if that is none."""
    return ir.DataType(number) if number and number in ir.DataType.__members__.values() else None
