"""Conversion to float32 of models that compute in another floating-point type; inputs and outputs keep it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import cast_to
from ortune.graph.model.graphs import attribute_tensors, graphs, tensor_value
from ortune.graph.nodes import is_op
from ortune.printable import amount
from ortune.records import Workload
from ortune.rewrites._base import Proposed, RewriteResult, unchanged
from ortune.rewrites._editor import Editor

_SINGLE = ir.DataType.FLOAT
_LARGEST = float(np.finfo(np.float32).max)
_TYPED = ("to", "dtype", "output_datatype", "output_dtype")  # attributes with the number of a type
_OPEN = frozenset(
    {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}
)  # domains in which operators for float16 or float64 also take float32
_NOT_LOOKED_INTO = frozenset(
    {
        ir.AttributeType.TYPE_PROTO,
        ir.AttributeType.TYPE_PROTOS,
        ir.AttributeType.SPARSE_TENSOR,
        ir.AttributeType.SPARSE_TENSORS,
    }
)


def _stays(model: ir.Model, value: ir.Value) -> bool:
    """Return whether a value belongs to the model's signature: an input, or an initializer that is also an output."""
    return value.graph is model.graph and (
        value.is_graph_input() or (value.is_initializer() and value.is_graph_output())
    )


def _cast_to(node: ir.Node, dtype: ir.DataType) -> bool:
    return is_op(node, "Cast") and cast_to(node) == dtype.value


@dataclass(frozen=True, slots=True)
class ToFloat32:
    """A conversion from one floating-point type to float32.

    Attributes:
        source: The type to replace.
        words: Name of the type for sentences.
        why: The reason that the type is slow, as the end of a sentence.
    """

    source: ir.DataType
    words: str
    why: str

    def _last_cast(self, model: ir.Model, node: ir.Node) -> bool:
        """Return whether a node is a Cast to the type whose result is only a graph output."""
        output = node.outputs[0] if node.outputs else None
        return (
            _cast_to(node, self.source)
            and node.graph is model.graph
            and output is not None
            and output.is_graph_output()
            and not output.uses()
        )

    def _fixed(self, model: ir.Model) -> list[ir.Value]:
        """Return the signature's values of the type that have a use other than a Cast to float32."""
        candidates = [
            *model.graph.inputs,
            *(v for v in model.graph.initializers.values() if not v.is_graph_input()),
        ]
        return [
            value
            for value in candidates
            if value.dtype == self.source
            and _stays(model, value)
            and not all(_cast_to(use.node, _SINGLE) for use in value.uses())
        ]

    def _weights(self, model: ir.Model) -> Iterator[ir.Value]:
        for graph in graphs(model, functions=False):
            assert isinstance(graph, ir.Graph)
            for value in graph.initializers.values():
                stored = value.const_value
                if stored is not None and stored.dtype == self.source and not _stays(model, value):
                    yield value

    def _attributes(self, model: ir.Model) -> Iterator[tuple[ir.Node, ir.Attr]]:
        """Yield pairs (node, attribute) for attributes that contain tensors of the type or name the type."""
        for graph in graphs(model):
            for node in graph:
                if self._last_cast(model, node):
                    continue
                for attribute in list(node.attributes.values()):
                    names = (
                        not attribute.is_ref()
                        and attribute.type == ir.AttributeType.INT
                        and attribute.name in _TYPED
                        and attribute.value == self.source.value
                    )
                    if names or any(tensor.dtype == self.source for tensor in attribute_tensors(attribute)):
                        yield node, attribute

    def _refused(self, model: ir.Model) -> str:
        """Return why the model cannot be converted; "" if it can be."""
        for value in (*model.graph.inputs, *model.graph.outputs):
            if value.type is None:
                return f"the type of {value.name!r} is not declared"
            if not isinstance(value.type, ir.TensorType) and value.dtype == self.source:
                return f"{value.name!r} is not a tensor and cannot be cast"
        reasons = (self._obstacle(model, node) for graph in graphs(model) for node in graph)
        return next(filter(None, reasons), "")

    def _obstacle(self, model: ir.Model, node: ir.Node) -> str:
        """Return why a node's types cannot be changed; "" if they can be."""
        if node.op_identifier() not in model.functions and node.domain not in _OPEN:
            return f"{node.op_type} of the domain {node.domain!r} might not support float32"
        for attribute in node.attributes.values():
            if attribute.is_ref() and attribute.name in _TYPED:
                return f"a function gets its type from its caller ({attribute.name} of {node.op_type})"
            if attribute.type in _NOT_LOOKED_INTO:
                return f"{node.op_type} has a sparse tensor or declares its own type"
        return "BitCast depends on the binary representation" if is_op(node, "BitCast") else ""

    def _wider(self, tensor: ir.TensorProtocol) -> ir.TensorProtocol:
        """Return a tensor that converts to float32 lazily, since converting all at once would double the memory."""

        def read() -> ir.TensorProtocol:
            numbers = tensor.numpy()
            if numbers.dtype == np.float64:
                # The lowest float64 of a mask must not become -inf: a fully masked row would be NaN after
                # Softmax.
                numbers = np.where(np.isfinite(numbers), np.clip(numbers, -_LARGEST, _LARGEST), numbers)
            return ir.Tensor(numbers.astype(np.float32), name=tensor.name)

        return ir.LazyTensor(read, _SINGLE, ir.Shape(tensor.shape.numpy()), name=tensor.name)

    def _change_attribute(self, node: ir.Node, attribute: ir.Attr) -> None:
        if attribute.type == ir.AttributeType.INT:
            node.attributes[attribute.name] = ir.AttrInt64(attribute.name, _SINGLE.value)
        elif attribute.type == ir.AttributeType.TENSOR:
            node.attributes[attribute.name] = ir.AttrTensor(
                attribute.name, self._wider(tensor_value(attribute))
            )
        else:
            tensors = [self._wider(t) if t.dtype == self.source else t for t in attribute.as_tensors()]
            node.attributes[attribute.name] = ir.AttrTensors(attribute.name, tensors)

    def _single(self, kind: ir.TypeProtocol) -> ir.TypeProtocol:
        """Return a copy of a type with float32 elements, since clones of a model share type objects."""
        if isinstance(kind, ir.SequenceType):
            return ir.SequenceType(self._single(kind.elem_type))
        if isinstance(kind, ir.OptionalType):
            return ir.OptionalType(self._single(kind.elem_type))
        return ir.TensorType(_SINGLE)

    def _types(self, model: ir.Model, last: set[ir.Value]) -> None:
        """Declare every inner value of the type as float32, except ``last``."""
        for graph in graphs(model):
            stored = graph.initializers.values() if isinstance(graph, ir.Graph) else ()
            for value in (*graph.inputs, *stored, *(v for node in graph for v in node.outputs)):
                kind = value.type
                if (
                    kind is not None
                    and kind.dtype == self.source
                    and value not in last
                    and not _stays(model, value)
                ):
                    value.type = self._single(kind)

    def _cast_inputs(self, model: ir.Model, editor: Editor, values: Sequence[ir.Value]) -> None:
        first = next(iter(model.graph), None)
        for value in values:
            assert first is not None  # a node uses the value, so the graph is not empty
            uses = [use for use in value.uses() if not _cast_to(use.node, _SINGLE)]
            single = editor.node(
                first, "Cast", [value], [ir.AttrInt64("to", _SINGLE.value)], name=f"{value.name}_float32"
            )
            single.type, single.shape = ir.TensorType(_SINGLE), value.shape
            for use in uses:
                use.node.replace_input_with(use.idx, single)

    def _cast_outputs(self, model: ir.Model, editor: Editor, halves: Sequence[ir.Value]) -> None:
        graph = model.graph
        for value in halves:
            # Callers use the name of the output, so the Cast's output gets it and the value another.
            name, value.name = value.name, editor.fresh(f"{value.name}_float32")
            node = ir.Node(
                "",
                "Cast",
                [value],
                [ir.AttrInt64("to", self.source.value)],
                name=editor.fresh(f"{name}_{self.words}"),
            )
            half = node.outputs[0]
            half.name, half.type, half.shape = name, ir.TensorType(self.source), value.shape
            graph.append(node)
            for place, output in enumerate(list(graph.outputs)):
                if output is value:
                    graph.outputs[place] = half

    def change(self, model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
        """Convert all inner values to float32, with casts at inputs and outputs."""
        weights, attributes, fixed = (
            list(self._weights(model)),
            list(self._attributes(model)),
            self._fixed(model),
        )
        why = (
            self._refused(model)
            if weights or attributes or fixed
            else f"the model has no {self.words} weights or constants"
        )
        if why:
            return unchanged(why)
        editor = Editor(model)
        last = {v for node in model.graph if self._last_cast(model, node) for v in node.outputs}
        halves = [
            value
            for value in dict.fromkeys(model.graph.outputs)
            if value.dtype == self.source and value not in last and not _stays(model, value)
        ]
        for value in weights:
            assert value.const_value is not None
            value.const_value = self._wider(value.const_value)
        for node, attribute in attributes:
            self._change_attribute(node, attribute)
        self._types(model, last)
        self._cast_inputs(model, editor, fixed)
        self._cast_outputs(model, editor, halves)
        return RewriteResult(
            modified=True, what=f"Converted {_counted(len(weights), len(attributes))} to float32."
        )

    def proposes(self, model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
        """Propose the conversion if an inner weight or attribute has the type."""
        weights, attributes = sum(1 for _ in self._weights(model)), sum(1 for _ in self._attributes(model))
        if not weights + attributes or self._refused(model):
            return []
        return [({}, f"{_counted(weights, attributes)} are {self.words}, {self.why}")]


def _counted(weights: int, attributes: int) -> str:
    inner = "constant or cast" if attributes == 1 else "constants and casts"
    return f"{amount(weights, 'weight')} and {attributes} {inner}"
