"""Computes the peak memory of a graph's values from their lifetimes, in a node order that depends only on the wiring.

ONNX Runtime's optimiser orders nodes differently in every process, which would change the peak.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir
from onnx import GraphProto, NodeProto

from ortune.engines.locks.snapshot.structure import all_nodes, graphs_of
from ortune.graph.cost.graph import GraphCounter
from ortune.graph.kinds import VIEWS
from ortune.graph.model.graphs import graphs
from ortune.graph.nodes import operator
from ortune.graph.shapes.types import n_bytes

Sizes = dict[str, int]
"""Bytes by value name; values of unknown size are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Static memory of one graph.

    Attributes:
        weights_bytes: Bytes of initializers, subgraphs included.
        peak_activation_bytes: Largest total of values that are live at once; inputs and outputs are live throughout.
        unknown_values: Number of values of unknown size, which are not counted.
    """

    weights_bytes: int
    peak_activation_bytes: int
    unknown_values: int


def byte_sizes(model: ir.Model, fed: Mapping[str, tuple[int, ...]]) -> Sizes:
    """Return the bytes of the values of the main graph and its subgraphs that are known without a run."""
    counter = GraphCounter(model, fed)
    counter.graph(model.graph, "")
    sizes: Sizes = {}
    for graph in graphs(model, functions=False):
        for value in (*graph.inputs, *(value for node in graph for value in node.outputs)):
            size = counter.n_bytes(value)
            if value.name and size is not None:
                # Branches may use a name twice: the largest counts.
                sizes[value.name] = max(size, sizes.get(value.name, 0))
    return sizes


def memory(graph: GraphProto, sizes: Sizes) -> Memory:
    """Return the memory of a graph with values of the given sizes.

    The result does not account for kernels' scratch space, the arena's reserve or in-place reuse. It serves to compare
    graphs, and is the same on every machine.
    """
    inner = [g for node in all_nodes(graph) for g in graphs_of(node)]
    stored = (t for g in (graph, *inner) for t in g.initializer)
    weights = sum(n_bytes(ir.DataType(t.data_type), t.dims) or 0 for t in stored)
    outputs = {name for node in all_nodes(graph) for name in node.output if name}
    peak = _peak(graph, sizes, inputs=[v.name for v in graph.input])
    return Memory(
        weights_bytes=weights, peak_activation_bytes=peak, unknown_values=len(outputs - sizes.keys())
    )


def _peak(graph: GraphProto, sizes: Sizes, inputs: Sequence[str]) -> int:
    """Return the peak of one graph; a subgraph's peak is added while its node runs."""
    weights = {tensor.name for tensor in graph.initializer}
    owner: dict[str, str] = {}
    last: dict[str, int] = {}
    nodes = depth_first(graph)
    for step, node in enumerate(nodes):
        for name in _reads(node):
            # A reader of a view also keeps the underlying buffer alive.
            last[owner.get(name, name)] = step
        if operator(node) in VIEWS and node.input and node.input[0] not in weights:
            owner[node.output[0]] = owner.get(node.input[0], node.input[0])
    for value in graph.output:
        last[owner.get(value.name, value.name)] = len(nodes)
    alive = {name: sizes.get(name, 0) for name in inputs if name not in weights}
    now = peak = sum(alive.values())
    held_throughout = set(alive)
    ends: dict[int, list[str]] = {}
    for name, step in last.items():
        ends.setdefault(step, []).append(name)
    for step, node in enumerate(nodes):
        for name in node.output:
            if name and name not in owner:
                alive[name] = sizes.get(name, 0)
                now += alive[name]
        inside = max((_peak(g, sizes, inputs=()) for g in graphs_of(node)), default=0)
        peak = max(peak, now + inside)
        # A value without readers is released at once.
        for name in (*ends.get(step, ()), *(n for n in node.output if n not in last)):
            if name not in held_throughout:
                now -= alive.pop(name, 0)
    return peak


def depth_first(graph: GraphProto) -> list[NodeProto]:
    """Return the nodes in topological order, depth first from each output.

    The order in the file does not matter, except for nodes that no output needs, which come last.
    """
    nodes = list(graph.node)
    maker = {name: number for number, node in enumerate(nodes) for name in node.output if name}
    order: list[NodeProto] = []
    done: set[int] = set()

    def visit(start: int) -> None:
        # Without recursion, since graphs may be deeper than Python's stack.
        waiting = [(start, iter(_reads(nodes[start])))]
        done.add(start)
        while waiting:
            number, reads = waiting[-1]
            new = next((maker[name] for name in reads if maker.get(name, number) not in done), None)
            if new is None:
                order.append(nodes[number])
                waiting.pop()
            else:
                done.add(new)
                waiting.append((new, iter(_reads(nodes[new]))))

    for start in [maker[value.name] for value in graph.output if value.name in maker] + [*range(len(nodes))]:
        if start not in done:
            visit(start)
    return order


def _reads(node: NodeProto) -> list[str]:
    """Return the names that a node and its subgraphs read."""
    outer = [name for inner in graphs_of(node) for name in _outer_reads(inner)]
    return [name for name in (*node.input, *outer) if name]


def _outer_reads(graph: GraphProto) -> list[str]:
    """Return every name that a subgraph reads, including inner names, which do no harm since none is live outside."""
    names = [name for node in depth_first(graph) for name in _reads(node)]
    return names + [value.name for value in graph.output]
