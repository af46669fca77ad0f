"""A model as steps and values, with functions inlined and constants treated as data.

Every step has a name. An unnamed node is named by its operator and position: ``Conv#12`` is the thirteenth node of its
graph in file order, with functions inlined. In subgraphs the path comes first: ``If#4/then_branch/Conv#3``. Nodes of
functions are named as in ``graph.cost``: by their own name, and ``name_2`` for the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import onnx_ir as ir

from ortune.graph.attributes import graphs_of
from ortune.graph.constants import is_overridable, stored
from ortune.graph.model.graphs import own_name, subgraphs
from ortune.graph.model.operators import STANDARD
from ortune.graph.nodes import is_op


@dataclass(eq=False, slots=True)
class Value:
    """A value of the graph; ``constant`` is set if it is stored and cannot be overridden."""

    name: str
    body: Body
    step: GraphStep | None = None
    constant: bool = False
    tensor: ir.TensorProtocol | None = None
    users: list[GraphStep] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class GraphStep:
    """A node of the model, with functions inlined.

    Attributes:
        name: Name as described in the module docstring; not always unique.
        own_name: Name in the file; "" if there is none.
        order: Index among all steps of the model.
        index: ONNX Runtime's number of the node within its graph as loaded; None in functions.
        inputs: Inputs; None for each omitted input.
        outer: Values of enclosing graphs that the step's subgraphs read.
    """

    name: str
    own_name: str
    node: ir.Node
    body: Body
    order: int
    index: int | None
    inputs: list[Value | None]
    outputs: list[Value]
    outer: list[Value] = field(default_factory=list)
    bodies: dict[str, Body] = field(default_factory=dict)

    @property
    def op_type(self) -> str:
        """Operator, without the domain."""
        return self.node.op_type

    @property
    def domain(self) -> str:
        """Domain of the operator; "" for ONNX's own."""
        return "" if self.node.domain in STANDARD else self.node.domain

    def reads(self) -> Iterator[Value]:
        """Yield every value that the step reads, including those read by its subgraphs."""
        yield from (value for value in self.inputs if value is not None)
        yield from self.outer


@dataclass(eq=False, slots=True)
class Body:
    """A graph or subgraph of a model.

    Attributes:
        parent: The step with this subgraph in its attribute ``branch``; None for the main graph.
        values: Values by name, except those of functions.
        local: Values of functions, keyed by (operator of the function, name in the function); one per call, in order.
        local_steps: Steps of functions, with the same keys and order.
    """

    parent: GraphStep | None = None
    branch: str = ""
    steps: list[GraphStep] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)
    local: dict[tuple[str, str], list[Value]] = field(default_factory=dict)
    local_steps: dict[tuple[str, str], list[GraphStep]] = field(default_factory=dict)


class ModelView:
    """A whole model as steps and values, with functions inlined.

    Attributes:
        main: The main graph.
        steps: All steps; those of subgraphs directly follow the step that contains them.
        functions: Operators that the model defines as functions.
    """

    def __init__(self, model: ir.Model) -> None:
        self.steps: list[GraphStep] = []
        self.functions = frozenset(op for _, op, _ in model.functions)
        self._functions = dict(model.functions)
        self._calling: list[ir.OperatorIdentifier] = []
        self._used: set[str] = set()
        self._last: dict[str, int] = {}
        self.main = self._graph(model.graph, {}, Body(), "", {})

    def bodies(self) -> Iterator[Body]:
        """Yield the main graph and every subgraph."""
        yield self.main
        for step in self.steps:
            yield from step.bodies.values()

    def _graph(
        self, graph: ir.Graph, values: dict[ir.Value, Value], body: Body, path: str, names: dict[ir.Node, str]
    ) -> Body:
        """Fill and return ``body``; ``values`` maps the values of the enclosing graphs."""
        values = dict(values)
        for value in graph.inputs:
            body.inputs.append(self._value(value, body, values))
        for value in graph.initializers.values():
            if not is_overridable(value):
                weight = self._value(value, body, values)
                weight.constant, weight.tensor = True, value.const_value
        nodes = list(graph)
        # All names are collected first, so a generated name never equals that of a later node.
        self._used.update(filter(None, map(own_name, nodes)))
        place = _Place(path, names)
        index = 0
        for node in nodes:
            constant = is_op(node, "Constant")
            self._node(node, values, body, place, None if constant else index, "", names)
            index += not constant
        body.outputs = [values[value] for value in graph.outputs if value in values]
        return body

    def _node(
        self,
        node: ir.Node,
        values: dict[ir.Value, Value],
        body: Body,
        place: _Place,
        index: int | None,
        called: str,
        names: dict[ir.Node, str],
    ) -> None:
        """Add a node; ``called`` is the function that it comes from, or ""."""
        function = self._functions.get(node.op_identifier())
        if function is not None and node.op_identifier() not in self._calling:
            self._call(node, function, values, body, place)
            return
        name = place.name(node)
        outputs = [self._value(value, body, values, called) for value in node.outputs]
        if is_op(node, "Constant"):
            for value in outputs:
                value.constant, value.tensor = True, stored(node.outputs[0])
            return
        step = GraphStep(
            name=name,
            own_name=own_name(node),
            node=node,
            body=body,
            order=len(self.steps),
            index=index,
            inputs=[self._read(value, values, body) for value in node.inputs],
            outputs=outputs,
        )
        self.steps.append(step)
        body.steps.append(step)
        if called:
            body.local_steps.setdefault((called, step.own_name), []).append(step)
        for value in outputs:
            value.step = step
        for attribute, graph in graphs_of(node):
            below = f"{name}/{attribute}/" if node.op_type == "If" else f"{name}/"
            inner = self._graph(graph, values, Body(parent=step, branch=attribute), below, names)
            step.bodies[attribute] = inner
            step.outer = list(dict.fromkeys([*step.outer, *_from_outside(inner)]))
        for value in dict.fromkeys(step.reads()):
            value.users.append(step)

    def _call(
        self,
        node: ir.Node,
        function: ir.Function,
        values: dict[ir.Value, Value],
        body: Body,
        place: _Place,
    ) -> None:
        """Add the steps of a function in place of a call."""
        inside: dict[ir.Value, Value] = {}
        for formal, actual in zip(function.inputs, node.inputs, strict=False):
            value = self._read(actual, values, body)
            if value is not None:
                inside[formal] = value
        named = dict(zip(function.outputs, node.outputs, strict=False))
        for formal, actual in named.items():
            if formal not in inside:
                # ONNX Runtime also gives a function's outputs the names used by the caller.
                inside[formal] = self._value(actual, body, values)
        names = {inner: self._unique(own_name(inner) or "node") for inner in _with_inner(function)}
        within = _Place("", names, place)
        self._calling.append(node.op_identifier())
        for inner in function:
            self._node(inner, inside, body, within, None, node.op_type, names)
        self._calling.pop()
        for formal, actual in named.items():
            values[actual] = inside[formal]

    def _value(self, value: ir.Value, body: Body, values: dict[ir.Value, Value], called: str = "") -> Value:
        if value in values:
            return values[value]  # named by a function's caller, or read before its producer
        new = values[value] = Value(name=value.name or "", body=body)
        if new.name and called:
            body.local.setdefault((called, new.name), []).append(new)
        elif new.name:
            body.values[new.name] = new
        return new

    def _read(self, value: ir.Value | None, values: dict[ir.Value, Value], body: Body) -> Value | None:
        if value is None or not (value.name or value in values):
            return None
        return values[value] if value in values else self._value(value, body, values)

    def _unique(self, name: str) -> str:
        unique, i = name, self._last.get(name, 1)
        while unique in self._used:
            i += 1
            unique = f"{name}_{i}"
        self._last[name] = i
        self._used.add(unique)
        return unique


def step_names(model: ir.Model) -> dict[ir.Node, frozenset[str]]:
    """Return the step names of each node: one per call for a function's node, none for a node that calls a function."""
    names: dict[ir.Node, frozenset[str]] = {}
    for step in ModelView(model).steps:
        names[step.node] = names.get(step.node, frozenset()) | {step.name}
    return names


class _Place:
    """Counter that names the nodes of a graph; nodes of an inlined function are counted in the caller's graph."""

    def __init__(self, path: str, names: dict[ir.Node, str], around: _Place | None = None) -> None:
        self._path, self._names, self._around = path, names, around
        self._count = -1

    def name(self, node: ir.Node) -> str:
        """Return the name of the next node."""
        place: _Place = self
        while place._around is not None:
            place = place._around
        place._count += 1
        own = self._names.get(node) or own_name(node)
        return own or f"{place._path}{node.op_type}#{place._count}"


def _with_inner(nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    """Yield every node after those of its subgraphs, the order in which inlining names them."""
    for node in nodes:
        for graph in subgraphs(node):
            yield from _with_inner(graph)
        yield node


def _from_outside(body: Body) -> Iterator[Value]:
    for step in body.steps:
        yield from (value for value in step.reads() if value.body is not body)
    yield from (value for value in body.outputs if value.body is not body)
