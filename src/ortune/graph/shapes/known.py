"""Types and sizes of all values of a model, inferred by onnx's shape inference without running the model."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from weakref import WeakKeyDictionary

import onnx
import onnx_ir as ir
from onnx import shape_inference

from ortune.graph.attributes import SMALL_BYTES, cast_to, optional_int, tensor_of
from ortune.graph.constants import constant, is_overridable
from ortune.graph.model.garbage import without_collection
from ortune.graph.model.graphs import Listing, graphs, listing_of, op_set, stored_bytes
from ortune.graph.model.operators import STANDARD
from ortune.graph.nodes import is_op
from ortune.graph.shapes.elements import elements
from ortune.graph.written import Fingerprint

_MOST_BYTES = 1 << 28  # maximum bytes of tensors in subgraphs, which are copied unchanged
_MOST_SIZES = 1 << 22  # maximum elements of vectors treated as lists of sizes, at 1.5 us per element
_MOST_COPIES = 1 << 24  # maximum copies of values into the tables of inner graphs, at 0.2 us each

_KEEP_SYMBOLS = op_set(
    "Abs Add And AveragePool BatchNormalization Cast Ceil Clip Concat Conv Cos Div Dropout Elu Equal Erf Exp Flatten "
    "Floor Gather Gelu Gemm GlobalAveragePool Greater HardSigmoid HardSwish Identity LayerNormalization LeakyRelu Less "
    "Log LogSoftmax MatMul Max MaxPool Min Mul Neg Not Or PRelu Pow Reciprocal ReduceMax ReduceMean ReduceMin "
    "ReduceProd ReduceSum Relu Reshape Round Shape Sigmoid Sign Sin Softmax Softplus Sqrt Squeeze Sub Sum Tanh "
    "Transpose Unsqueeze Where"
)
"""Operators after which inferred symbols are valid; for others, such as Slice, a size may get a wrong symbol."""

Dims = tuple[int | str | None, ...]

_Types = Mapping[str, onnx.TypeProto.Tensor]
_Inferred = dict[Fingerprint, _Types]
_remembered: ContextVar[_Inferred | None] = ContextVar("remembered", default=None)
"""Inferred types for each model, keyed by value name (``_apart_name``); None outside ``remembering``."""
_of_unchanged: WeakKeyDictionary[Listing, Values] = WeakKeyDictionary()
"""Inferred values of models inside ``unchanged``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferredShape:
    """Inferred type and shape of a value.

    Attributes:
        dtype: The element type; None if unknown.
        dims: The sizes: each is a number, a symbol (equal symbols are equal sizes), or None if unknown. None if the
            rank is unknown.
    """

    dtype: ir.DataType | None = None
    dims: Dims | None = None


class Values(dict[ir.Value, InferredShape]):
    """Inferred types and shapes by value, and the contents of values that consist of sizes."""

    def inferred(self, value: ir.Value | None) -> InferredShape:
        """Return the inferred type and shape of a value, both None if unknown."""
        return self.get(value, InferredShape()) if value is not None else InferredShape()

    def dims(self, value: ir.Value | None) -> Dims | None:
        """Return the inferred shape of a value; None if its rank is unknown."""
        return self.inferred(value).dims

    def sizes(self, value: ir.Value | None) -> tuple[int | None, ...] | None:
        """Return the shape of a value with None for each symbolic size; None if its rank is unknown."""
        dims = self.inferred(value).dims
        return None if dims is None else tuple(dim if isinstance(dim, int) else None for dim in dims)

    def contents(self, value: ir.Value | None) -> Dims | None:
        """Return the elements of a value that consists of sizes; None if the number of elements is unknown."""
        found = elements(value, self._shape, self._count)
        return None if found is None else tuple(found)

    def _shape(self, node: ir.Node, _: int) -> Dims | None:
        dims = self.dims(node.inputs[0])
        return None if dims is None else dims[optional_int(node, "start") : optional_int(node, "end")]

    def _count(self, value: ir.Value) -> int | None:
        dims = self.dims(value)
        if dims is None or len(dims) > 1:
            return None
        count = dims[0] if dims else 1
        return count if isinstance(count, int) else None


def known_values(model: ir.Model) -> Values:
    """Infer types and shapes from the inputs only; other declared shapes are not trusted.

    ONNX Runtime rejects inputs whose sizes differ from the declared ones, but does not check other declared sizes.
    """
    listing = listing_of(model)
    if listing is None:
        return _known_values(model)
    if listing not in _of_unchanged:
        _of_unchanged[listing] = _known_values(model)
    return Values(_of_unchanged[listing])  # a copy, which the caller may extend


@without_collection()
def _known_values(model: ir.Model) -> Values:
    inferred, believed = _inferred(model), _with_reliable_symbols(model)
    values = Values()
    for number, graph in enumerate(graphs(model, functions=False)):
        for value in (*graph.inputs, *(v for node in graph for v in node.outputs)):
            said = inferred.get(_apart_name(number, value.name or ""))
            if said is not None and said.elem_type:
                dims = None
                if said.HasField("shape"):
                    dims = tuple(_size(size, value in believed) for size in said.shape.dim)
                values[value] = InferredShape(dtype=ir.DataType(said.elem_type), dims=dims)
    for graph in graphs(model):
        initializers = (
            [(v, v.const_value) for v in graph.initializers.values()] if isinstance(graph, ir.Graph) else []
        )
        for value, tensor in (
            *initializers,
            *((node.outputs[0], _stored(node)) for node in graph if _stored(node)),
        ):
            if tensor is not None:
                values[value] = InferredShape(dtype=tensor.dtype, dims=tuple(map(int, tensor.shape.numpy())))
    return values


def _with_reliable_symbols(model: ir.Model) -> set[ir.Value]:
    """Return the values with reliable inferred symbols: inputs, and outputs of operators that keep symbols valid."""
    believed = set(model.graph.inputs)
    for graph in graphs(model, functions=False):
        believed.update(graph.initializers.values() if isinstance(graph, ir.Graph) else ())
    # Outer graphs come first, and in each graph every node follows the nodes that it reads.
    for graph in graphs(model, functions=False):
        for node in graph:
            keeps = node.domain in STANDARD and node.op_type in _KEEP_SYMBOLS
            if node.op_type == "Constant" or (keeps and all(v is None or v in believed for v in node.inputs)):
                believed.update(node.outputs)
    return believed


def _stored(node: ir.Node) -> ir.TensorProtocol | None:
    """Return the tensor of a Constant node; None for other nodes."""
    return tensor_of(node, "value") if node.op_type == "Constant" else None


def _size(size: onnx.TensorShapeProto.Dimension, believed: bool) -> int | str | None:
    if size.HasField("dim_value"):
        return int(size.dim_value)
    return str(size.dim_param) if size.dim_param and believed else None


def _forget(model: ir.Model) -> None:
    """Remove declared shapes that ONNX Runtime does not check, and large tensors."""
    for graph in graphs(model):
        for node in list(graph) if isinstance(graph, ir.Graph) else ():
            stored = _stored(node)
            if (
                stored is not None
                and stored_bytes(stored) > SMALL_BYTES
                and not node.outputs[0].is_graph_output()
            ):
                # An input of the main graph can be read everywhere.
                placeholder = ir.Value(
                    name=f"constant {len(model.graph.inputs)}",
                    type=ir.TensorType(stored.dtype),
                    shape=ir.Shape(stored.shape.numpy()),
                )
                model.graph.inputs.append(placeholder)
                ir.convenience.replace_all_uses_with(node.outputs[0], placeholder)
                graph.remove(node, safe=True)
        inner = graph is not model.graph
        for value in (*(graph.inputs if inner else ()), *(v for node in graph for v in node.outputs)):
            value.shape = None
    main = model.graph
    for value in main.inputs:
        # Sizes of two inputs with the same symbol are not checked for equality.
        if value.shape is not None:
            sizes = [d if isinstance(d, int) else f"{value.name}[{n}]" for n, d in enumerate(value.shape)]
            value.shape = ir.Shape(sizes)
    for name, value in list(main.initializers.items()):
        stored = value.const_value
        if stored is None:
            continue
        if is_overridable(value):
            # An overridable initializer has a type and shape, but its contents are unknown.
            del main.initializers[name]
        elif stored.dtype == ir.DataType.STRING or stored_bytes(stored) > SMALL_BYTES:
            del main.initializers[name]
            value.type, value.shape = ir.TensorType(stored.dtype), ir.Shape(stored.shape.numpy())
            value.const_value = None
            if not value.is_graph_input():
                main.inputs.append(value)


@contextmanager
def remembering() -> Iterator[None]:
    """Cache inferred types, keyed by model fingerprint, while many rewrites examine one model."""
    cache = _remembered.get()
    token = _remembered.set({} if cache is None else cache)
    try:
        yield
    finally:
        _remembered.reset(token)


def _inferred(model: ir.Model) -> _Types:
    """Return the inferred types of a model by name, cached inside ``remembering``; empty if inference fails."""
    cache = _remembered.get()
    if cache is None:
        return _infer(model)
    fingerprint = Fingerprint.from_model(model)
    if fingerprint not in cache:
        cache[fingerprint] = _infer(model)
    return cache[fingerprint]


def _infer(model: ir.Model) -> _Types:
    copy = model.clone()
    _cut(copy)
    _forget(copy)
    inner = (g for g in graphs(copy) if g is not copy.graph and isinstance(g, ir.Graph))
    tensors = (v.const_value for g in inner for v in g.initializers.values())
    if sum(stored_bytes(tensor) for tensor in tensors if tensor is not None) > _MOST_BYTES:
        return {}
    # Inference copies the table of all outer values for each nested graph.
    n_inner = sum(1 for _ in graphs(copy, functions=False)) - 1
    if n_inner * len(copy.graph) > _MOST_COPIES:
        return {}
    try:
        proto = ir.serde.serialize_model(copy)
        numbers = count()
        _make_names_unique(proto.graph, ChainMap(), numbers)
        # Inference keeps values of functions per call, but not those of graphs in functions.
        for node in (node for function in proto.functions for node in function.node):
            for body in _within(node):
                _make_names_unique(body, ChainMap(), numbers)
        inferred = shape_inference.infer_shapes(proto, data_prop=_vector_elements(copy) < _MOST_SIZES)
    except (shape_inference.InferenceError, ir.serde.SerdeError, ValueError, TypeError, RuntimeError):
        return {}
    return {
        info.name: info.type.tensor_type
        for graph in _nested(inferred.graph)
        for info in (*graph.input, *graph.value_info, *graph.output)
    }


def _vector_elements(model: ir.Model) -> int:
    """Return the number of elements of one-dimensional model inputs; each input counts once per reading node."""
    lengths = {v: v.shape[0] for v in model.graph.inputs if v.shape is not None and len(v.shape) == 1}
    read = (lengths.get(v, 0) for node in model.graph for v in node.inputs if v is not None)
    return sum(length for length in read if isinstance(length, int))


def _cut(model: ir.Model) -> None:
    """Insert an Identity after each node whose contents inference computes wrongly, which hides them from inference."""
    for graph in graphs(model):
        for node in list(graph):
            if not _computes_otherwise(node):
                continue
            output = node.outputs[0]
            uses = list(output.uses())
            same = ir.Node("", "Identity", [output])
            same.outputs[0].name = f"{output.name} (values unknown)"
            graph.insert_after(node, same)
            for use in uses:
                use.node.replace_input_with(use.idx, same.outputs[0])


def _computes_otherwise(node: ir.Node) -> bool:
    """Return whether onnx's inference (1.23) computes different contents than the node itself."""
    if is_op(node, "Slice"):  # bounds that are not constant are taken as zero
        return any(value is not None and constant(value) is None for value in node.inputs[1:])
    # Inference casts sizes to any type without a change.
    return is_op(node, "Cast") and cast_to(node) not in (ir.DataType.INT64.value, ir.DataType.INT32.value)


def _apart_name(number: int, name: str) -> str:
    """Return a unique name for a value; graphs are numbered in the order of the walk."""
    return f"{number}:{name}" if name else ""


def _make_names_unique(graph: onnx.GraphProto, outer: ChainMap[str, str], numbers: Iterator[int]) -> None:
    """Rename the values of a graph and its subgraphs to make all names in the model unique.

    Inference stores computed sizes by name, in one table for all graphs.
    """
    number, names = next(numbers), outer.new_child()

    def renamed(name: str) -> str:
        names[name] = _apart_name(number, name)
        return names[name]

    for value in graph.input:
        value.name = renamed(value.name)
    for tensor in graph.initializer:
        tensor.name = renamed(tensor.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        for inner in _within(node):
            _make_names_unique(inner, names, numbers)
        node.output[:] = [renamed(name) for name in node.output]
    for value in (*graph.output, *graph.value_info):
        value.name = names.get(value.name, value.name)


def _within(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs in the attributes of a node."""
    for attribute in node.attribute:
        yield from (attribute.g,) if attribute.HasField("g") else attribute.graphs


def _nested(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and all its subgraphs, outer graphs first."""
    yield graph
    for node in graph.node:
        for inner in _within(node):
            yield from _nested(inner)
