"""Converts a float16 model to float32 inside; inputs and outputs keep their types.

What it is: float16 weights, constants, casts and declared types become float32, including subgraphs and functions.
    Inputs and outputs keep their type, with a Cast after or before them.
Why it costs: ONNX Runtime's CPU provider has few float16 kernels. At every load it inserts Casts around the other
    nodes, removes most of them again, and converts the weights. Loading a convolutional model took twice as long this
    way, with equally fast runs. Remaining Casts cost time in every run.
Evidence: float16 weights; Casts that ONNX Runtime inserted into the optimised graph, and their share of a trace.
Fix and its safety: numerics: sums are rounded less, and values beyond 65504 no longer become infinite. Weights take
    twice the memory.
Example: ``--rewrite float16-to-float32``
References: ONNX Runtime source, ``core/optimizer/insert_cast_transformer.cc``; IEEE 754, binary16.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import cast_to
from ortune.graph.nodes import is_op
from ortune.model.graphs import attribute_tensors, graphs, tensor_value
from ortune.records import Workload
from ortune.rewrites._base import Proposed, Rewrite, RewriteResult, unchanged
from ortune.rewrites._editor import Editor

_HALF, _SINGLE = ir.DataType.FLOAT16, ir.DataType.FLOAT
_TYPED = ("to", "dtype", "output_datatype", "output_dtype")  # attributes that name a type by its number
_OPEN = frozenset(
    {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}
)  # whoever takes float16 there takes float32 too
_NOT_LOOKED_INTO = frozenset(
    {
        ir.AttributeType.TYPE_PROTO,
        ir.AttributeType.TYPE_PROTOS,
        ir.AttributeType.SPARSE_TENSOR,
        ir.AttributeType.SPARSE_TENSORS,
    }
)


def _stays(model: ir.Model, value: ir.Value) -> bool:
    """Whether a value without a producer is part of the signature: an input, or a weight that is an output."""
    return value.graph is model.graph and (
        value.is_graph_input() or (value.is_initializer() and value.is_graph_output())
    )


def _cast_to(node: ir.Node, dtype: ir.DataType) -> bool:
    return is_op(node, "Cast") and cast_to(node) == dtype.value


def _last_cast(model: ir.Model, node: ir.Node) -> bool:
    """Whether a node only casts a graph output to float16."""
    output = node.outputs[0] if node.outputs else None
    return (
        _cast_to(node, _HALF)
        and node.graph is model.graph
        and output is not None
        and output.is_graph_output()
        and not output.uses()
    )


def _fixed(model: ir.Model) -> list[ir.Value]:
    """Lists the float16 values of the signature with uses other than a Cast to float32."""
    candidates = [
        *model.graph.inputs,
        *(v for v in model.graph.initializers.values() if not v.is_graph_input()),
    ]
    return [
        value
        for value in candidates
        if value.dtype == _HALF
        and _stays(model, value)
        and not all(_cast_to(use.node, _SINGLE) for use in value.uses())
    ]


def _weights(model: ir.Model) -> Iterator[ir.Value]:
    for graph in graphs(model, functions=False):
        assert isinstance(graph, ir.Graph)
        for value in graph.initializers.values():
            stored = value.const_value
            if stored is not None and stored.dtype == _HALF and not _stays(model, value):
                yield value


def _attributes(model: ir.Model) -> Iterator[tuple[ir.Node, ir.Attr]]:
    """Lists the attributes that hold or name float16."""
    for graph in graphs(model):
        for node in graph:
            if _last_cast(model, node):
                continue
            for attribute in list(node.attributes.values()):
                names = (
                    not attribute.is_ref()
                    and attribute.type == ir.AttributeType.INT
                    and attribute.name in _TYPED
                    and attribute.value == _HALF.value
                )
                if names or any(tensor.dtype == _HALF for tensor in attribute_tensors(attribute)):
                    yield node, attribute


def _refused(model: ir.Model) -> str:
    """Returns why the model cannot be converted; "" if it can."""
    for value in (*model.graph.inputs, *model.graph.outputs):
        if value.type is None:
            return f"the type of {value.name!r} is not declared"
        if not isinstance(value.type, ir.TensorType) and value.dtype == _HALF:
            return f"{value.name!r} is not a tensor and cannot be cast"
    reasons = (_obstacle(model, node) for graph in graphs(model) for node in graph)
    return next(filter(None, reasons), "")


def _obstacle(model: ir.Model, node: ir.Node) -> str:
    """Returns why a node's types cannot be changed; "" if they can."""
    if node.op_identifier() not in model.functions and node.domain not in _OPEN:
        return f"{node.op_type} of the domain {node.domain!r} may not support float32"
    for attribute in node.attributes.values():
        if attribute.is_ref() and attribute.name in _TYPED:
            return f"a function gets its type from its caller ({attribute.name} of {node.op_type})"
        if attribute.type in _NOT_LOOKED_INTO:
            return f"{node.op_type} has a sparse tensor or declares its own type"
    return "BitCast depends on the binary representation" if is_op(node, "BitCast") else ""


def _wider(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """Converts a tensor to float32 lazily; converting all at once would double the memory."""

    def read() -> ir.TensorProtocol:
        return ir.Tensor(tensor.numpy().astype(np.float32), name=tensor.name)

    return ir.LazyTensor(read, _SINGLE, ir.Shape(tensor.shape.numpy()), name=tensor.name)


def _change_attribute(node: ir.Node, attribute: ir.Attr) -> None:
    if attribute.type == ir.AttributeType.INT:
        node.attributes[attribute.name] = ir.AttrInt64(attribute.name, _SINGLE.value)
    elif attribute.type == ir.AttributeType.TENSOR:
        node.attributes[attribute.name] = ir.AttrTensor(attribute.name, _wider(tensor_value(attribute)))
    else:
        tensors = [_wider(t) if t.dtype == _HALF else t for t in attribute.as_tensors()]
        node.attributes[attribute.name] = ir.AttrTensors(attribute.name, tensors)


def _single(kind: ir.TypeProtocol) -> ir.TypeProtocol:
    """Replaces float16 by float32 in a copy of a type; clones of a model share types."""
    if isinstance(kind, ir.SequenceType):
        return ir.SequenceType(_single(kind.elem_type))
    if isinstance(kind, ir.OptionalType):
        return ir.OptionalType(_single(kind.elem_type))
    return ir.TensorType(_SINGLE)


def _types(model: ir.Model, last: set[ir.Value]) -> None:
    """Declares every value inside as float32 that was float16."""
    for graph in graphs(model):
        stored = graph.initializers.values() if isinstance(graph, ir.Graph) else ()
        for value in (*graph.inputs, *stored, *(v for node in graph for v in node.outputs)):
            kind = value.type
            if kind is not None and kind.dtype == _HALF and value not in last and not _stays(model, value):
                value.type = _single(kind)


def _cast_inputs(model: ir.Model, editor: Editor, values: Sequence[ir.Value]) -> None:
    first = next(iter(model.graph), None)
    for value in values:
        assert first is not None  # a node uses the value
        uses = [use for use in value.uses() if not _cast_to(use.node, _SINGLE)]
        single = editor.node(
            first, "Cast", [value], [ir.AttrInt64("to", _SINGLE.value)], name=f"{value.name}_float32"
        )
        single.type, single.shape = ir.TensorType(_SINGLE), value.shape
        for use in uses:
            use.node.replace_input_with(use.idx, single)


def _cast_outputs(model: ir.Model, editor: Editor, halves: Sequence[ir.Value]) -> None:
    graph = model.graph
    for value in halves:
        name, value.name = value.name, editor.fresh(f"{value.name}_float32")
        node = ir.Node(
            "", "Cast", [value], [ir.AttrInt64("to", _HALF.value)], name=editor.fresh(f"{name}_float16")
        )
        half = node.outputs[0]
        half.name, half.type, half.shape = name, ir.TensorType(_HALF), value.shape
        graph.append(node)
        for place, output in enumerate(list(graph.outputs)):
            if output is value:
                graph.outputs[place] = half


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    weights, attributes, fixed = list(_weights(model)), list(_attributes(model)), _fixed(model)
    why = (
        _refused(model) if weights or attributes or fixed else "the model has no float16 weights or constants"
    )
    if why:
        return unchanged(why)
    editor = Editor(model)
    last = {v for node in model.graph if _last_cast(model, node) for v in node.outputs}
    halves = [
        value
        for value in dict.fromkeys(model.graph.outputs)
        if value.dtype == _HALF and value not in last and not _stays(model, value)
    ]
    for value in weights:
        assert value.const_value is not None
        value.const_value = _wider(value.const_value)
    for node, attribute in attributes:
        _change_attribute(node, attribute)
    _types(model, last)
    _cast_inputs(model, editor, fixed)
    _cast_outputs(model, editor, halves)
    return RewriteResult(
        modified=True, what=f"Converted {_counted(len(weights), len(attributes))} to float32."
    )


def _counted(weights: int, attributes: int) -> str:
    return f"{weights} weights and {attributes} constants and casts"


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    weights, attributes = sum(1 for _ in _weights(model)), sum(1 for _ in _attributes(model))
    if not weights + attributes or _refused(model):
        return []
    return [({}, f"{_counted(weights, attributes)} are float16, for which the CPU has few kernels")]


REWRITE = Rewrite(
    name="float16-to-float32",
    summary="converts float16 inside the model to float32",
    safety="numerics",
    stage=1,
    change=_change,
    proposes=_proposes,
)
