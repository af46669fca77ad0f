"""Facts about values that are known during counting: shapes, types, small contents, and reasons for unknown shapes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ortune.graph.evaluation import Array
from ortune.graph.model.graphs import subgraphs
from ortune.graph.shapes import types
from ortune.graph.shapes.single_nodes import Dims
from ortune.graph.shapes.symbols import Size, within
from ortune.graph.shapes.walk import Walk
from ortune.records import NodeCost


class Counter(ABC):
    """Base class of the counter, with the known types, shapes and small contents of values.

    Attributes:
        walk: The shape walk; all symbols are dropped, so each size is a number or unknown.
        no_tensor: Values that are sequences, maps or optionals.
    """

    def __init__(self, model: ir.Model) -> None:
        self.walk = Walk(keep=lambda symbol: 0)
        self.no_tensor: set[ir.Value] = set()
        self._opsets = dict(model.opset_imports)
        self._types: dict[ir.Value, ir.DataType | None] = {}
        self._values: dict[ir.Value, Array | None] = {}
        self._why: dict[ir.Value, str] = {}

    @abstractmethod
    def graph(self, graph: ir.Graph, inside: str) -> list[NodeCost]:
        """Count every node of a graph and its subgraphs; the inputs of ``graph`` must be bound."""

    def opset(self, domain: str) -> int:
        """Return the opset version of a domain; 1 if the model does not import it."""
        return self._opsets.get("" if domain == "ai.onnx" else domain, 1)

    def dims(self, value: ir.Value | None) -> Dims | None:
        """Return the shape of a value; None unless every size is known."""
        shape = self.walk.shape(value)
        if shape is None:
            return None
        sizes = tuple(dim.add for dim in shape if dim is not None and not dim.terms)
        return sizes if len(sizes) == len(shape) and all(size >= 0 for size in sizes) else None

    def is_computed(self, value: ir.Value) -> bool:
        """Return whether every size is known without the value's declared shape."""
        shape = self.walk.shapes.get(value)
        return shape is not None and all(dim is not None and not dim.terms for dim in shape)

    def dtype(self, value: ir.Value | None) -> ir.DataType | None:
        """Return the element type of a value, or None if unknown."""
        if value is None:
            return None
        if value in self._types:
            return self._types[value]
        return value.const_value.dtype if value.const_value is not None else value.dtype

    def n_bytes(self, value: ir.Value) -> int | None:
        """Return the bytes of a tensor; None if its shape or type is unknown, or it is not a tensor."""
        dims = self.dims(value)
        if dims is None or value in self.no_tensor or not isinstance(value.type, ir.TensorType | None):
            return None
        return types.n_bytes(self.dtype(value), dims)

    def content(self, value: ir.Value | None) -> Array | None:
        """Return the contents of a small value, or None if unknown."""
        if value is None:
            return None
        if value not in self._values:
            self._values[value] = self.walk.constant(value)
        content = self._values[value]
        if content is not None:
            return content
        numbers, shape = self.walk.numbers(value), self.dims(value)
        if numbers is None or shape is None or math.prod(shape) != len(numbers):
            return None
        dtype = self.dtype(value)
        return np.asarray(numbers, np.int64 if dtype is None else dtype.numpy()).reshape(shape)

    def bind(
        self,
        value: ir.Value,
        dims: Sequence[int | None] | None,
        dtype: ir.DataType | None = None,
        why: str = "",
    ) -> None:
        """Set a value's shape and type, or the reason ``why`` they are unknown."""
        if dims is not None:
            self.walk.shapes[value] = tuple(None if d is None else within(Size((), int(d))) for d in dims)
        if dtype is not None:
            self._types[value] = dtype
        if why:
            self._why[value] = why

    def alias(self, target: ir.Value, source: ir.Value | None, *, contents: bool = True) -> None:
        """Copy the facts about ``source`` to ``target``, except the elements if ``contents`` is False."""
        if source is None:
            return
        shape = self.walk.shape(source)
        if shape is not None:
            self.walk.shapes[target] = shape
        self._types[target] = self.dtype(source)
        if source in self._why:
            self._why[target] = self._why[source]
        if source in self.no_tensor:
            self.no_tensor.add(target)
        content = self.content(source) if contents else None
        if content is not None:
            self.keep(target, content)

    def why(self, value: ir.Value | None) -> str:
        """Return the reason why a value's shape is unknown; "" if none is recorded."""
        return "" if value is None else self._why.get(value, "")

    def forget(self, graph: ir.Graph) -> None:
        """Remove the facts about a body's values, before the body is counted again with different sizes."""
        for node in graph:
            for value in node.outputs:
                self.walk.shapes.pop(value, None)
                self.walk.contents.pop(value, None)
                self._values.pop(value, None)
                self._why.pop(value, None)
            for inner in subgraphs(node):
                self.forget(inner)

    def keep(self, value: ir.Value, array: Array) -> None:
        """Set the contents of a value, and its shape to that of the array."""
        self._values[value] = array
        self.bind(value, array.shape)
        if array.dtype.kind in "iub":
            self.walk.set_content(value, tuple(Size((), int(n)) for n in array.ravel()))
