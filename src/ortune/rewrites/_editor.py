"""Graph edits shared by rewrites: new nodes and constants with unused names, and replacement of values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache, cached_property

import numpy as np
import onnx_ir as ir

from ortune.graph.model.graphs import FREE_INITIALIZERS_IR, graphs, nested, subgraphs


def release(node: ir.Node) -> list[ir.Value]:
    """Detach the subgraphs of a node that will be removed, and return the outer values that they read."""
    bodies = [graph for body in subgraphs(node) for graph in nested(body)]
    inner = [member for graph in bodies for member in graph]
    own = {value for member in inner for value in member.outputs}
    for graph in bodies:
        own.update(graph.inputs)
        own.update(graph.initializers.values() if isinstance(graph, ir.Graph) else ())
    read: dict[ir.Value, None] = {}
    for member in inner:
        for place, value in enumerate(member.inputs):
            if value is not None:
                member.replace_input_with(place, None)
                if value not in own:
                    read[value] = None
    return list(read)


def takes_name(
    new: ir.Value,
    old: ir.Value,
    inner_names: Callable[[ir.Graph | ir.Function], Collection[str | None]] | None = None,
) -> bool:
    """Return whether a value can take over the name of a graph output.

    The value must be computed in the same graph and not be an output itself, and no subgraph may use the name for
    another value.

    Args:
        new: The value that would take over the name.
        old: The graph output.
        inner_names: Function that returns the names used in a graph's subgraphs, if they were collected before.
    """
    one, other = new.producer(), old.producer()
    if one is None or other is None or one.graph is not other.graph or new.is_graph_output():
        return False
    scope = one.graph
    assert scope is not None
    return old.name not in (_inner_names(scope) if inner_names is None else inner_names(scope))


def name_conflict(node: ir.Node) -> str:
    """Return a sentence that says that a no-op node stays because its input cannot take over a graph output's name."""
    return f"{node.op_type} {node.name!r} returns an input or a weight, which cannot become a graph output"


def _names(graph: ir.Graph | ir.Function) -> set[str | None]:
    """Return the names of a graph's values, excluding subgraphs."""
    initializers = graph.initializers if isinstance(graph, ir.Graph) else {}
    return {*(v.name for v in graph.inputs), *initializers, *(v.name for node in graph for v in node.outputs)}


def _inner_names(scope: ir.Graph | ir.Function) -> frozenset[str | None]:
    """Return the names of the values in all subgraphs of a graph."""
    return frozenset(name for graph in nested(scope) if graph is not scope for name in _names(graph))


class Editor:
    """Adds nodes and constants with unused names to a model, and replaces values."""

    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self._bodies = {function.graph: function for function in model.functions.values()}
        # Apart from fresh names, inner names are only ever removed, so they are collected once for all
        # replacements.
        self._inner_names = cache(_inner_names)

    def takes_name(self, new: ir.Value, old: ir.Value) -> bool:
        """Return whether a value can take over a graph output's name, using cached names of subgraphs."""
        return takes_name(new, old, self._inner_names)

    @cached_property
    def _names(self) -> set[str]:
        """All names in use in the model, collected on first access."""
        names: set[str] = set()
        for graph in graphs(self.model):
            names.update(name or "" for name in _names(graph))
            names.update(node.name or "" for node in graph)
        return names

    def fresh(self, wish: str) -> str:
        """Return an unused name, ``wish`` if possible, and reserve it."""
        name, count = wish, 1
        while name in self._names:
            count += 1
            name = f"{wish}_{count}"
        self._names.add(name)
        return name

    def constant(self, before: ir.Node, wish: str, array: np.ndarray) -> ir.Value:
        """Add a constant to a node's graph: an initializer, or a Constant node in functions and before IR version 4."""
        scope = before.graph
        assert scope is not None
        name = self.fresh(wish)
        tensor = ir.tensor(np.asarray(array, order="C"), name=name)
        # Functions have no initializers, and before IR version 4 every initializer is also a graph input.
        own = isinstance(scope, ir.Graph) and scope not in self._bodies
        if isinstance(scope, ir.Graph) and own and self.model.ir_version >= FREE_INITIALIZERS_IR:
            value = ir.Value(
                name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor
            )
            scope.initializers[name] = value
            return value
        node = ir.Node(
            "", "Constant", [], [ir.AttrTensor("value", tensor)], name=self.fresh(f"{wish}_constant")
        )
        node.outputs[0].name = name
        scope.insert_before(before, node)
        return node.outputs[0]

    def node(
        self,
        before: ir.Node,
        operator: str,
        inputs: Sequence[ir.Value | None],
        attributes: Sequence[ir.Attr] = (),
        *,
        name: str,
        domain: str = "",
    ) -> ir.Value:
        """Insert a node with one output before another node and return the output."""
        return self.outputs(before, operator, inputs, attributes, name=name, domain=domain, count=1)[0]

    def outputs(
        self,
        before: ir.Node,
        operator: str,
        inputs: Sequence[ir.Value | None],
        attributes: Sequence[ir.Attr] = (),
        *,
        name: str,
        domain: str = "",
        count: int,
    ) -> list[ir.Value]:
        """Insert a node with ``count`` outputs before another node and return the outputs."""
        scope = before.graph
        assert scope is not None
        if domain:
            self.model.opset_imports.setdefault(domain, 1)
            # A function has its own opset imports.
            for body, function in self._bodies.items():
                if any(inner is scope for inner in nested(body)):
                    function.opset_imports.setdefault(domain, 1)
        node = ir.Node(domain, operator, inputs, attributes, num_outputs=count, name=self.fresh(name))
        for value in node.outputs:
            value.name = self.fresh(f"{name}_output")
        scope.insert_before(before, node)
        return list(node.outputs)

    def replace(self, old: ir.Value, new: ir.Value) -> None:
        """Replace all uses of a value and remove its producer if unused; a graph output keeps its name."""
        if new.producer() is not None:  # the declared type of an input is part of the model's signature
            new.type = new.type or old.type
            if new.shape is None:
                new.shape = old.shape
        is_output = old.is_graph_output()
        if is_output and not self.takes_name(new, old):
            at = old.producer()
            assert at is not None
            new = self.node(at, "Identity", [new], name=f"{old.name}_identity")
            new.type, new.shape = old.type, old.shape
        ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
        if is_output:
            # The output's name belongs to the model's signature: the old value gives it up before the new one
            # takes it.
            name, old.name = old.name, self.fresh(f"{old.name}_before")
            new.name = name
            new.type, new.shape = old.type, old.shape
        self.drop(old)

    def drop(self, value: ir.Value | None) -> None:
        """Remove the producer of an unused value and everything that only this producer needed."""
        if value is None or value.uses() or value.is_graph_output():
            return
        node = value.producer()
        if node is None:
            graph = value.graph
            # An initializer that callers can override is part of the model's signature.
            if graph is not None and value.is_initializer() and not value.is_graph_input():
                del graph.initializers[value.name or ""]
            return
        if node.graph is None or any(v.uses() or v.is_graph_output() for v in node.outputs):
            return
        read = [*node.inputs, *release(node)]
        node.graph.remove(node, safe=True)
        for operand in dict.fromkeys(read):
            self.drop(operand)
