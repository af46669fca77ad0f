"""Forward data-flow analysis from a model's inputs to its outputs, through subgraphs and model-local functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import onnx_ir as ir

from ortune.graph.model.extent import LOOP_ROUNDS
from ortune.graph.model.graphs import subgraphs

State = TypeVar("State")

Transfer = Callable[[ir.Node, list[State], list[State] | None], list[State]]
"""Maps (node, input states, output states of its subgraphs or function body) to the node's output states."""


class Flow(Generic[State]):
    """One forward data-flow analysis; ``states`` contains the state of every value after ``run`` returns.

    Args:
        bottom: State of omitted inputs, of loop counters, and of outputs for which ``transfer`` returns no state.
        join: Merges the states of a value that may come from either of two paths.
        transfer: Computes the states of a node's outputs.
    """

    def __init__(
        self, *, bottom: State, join: Callable[[State, State], State], transfer: Transfer[State]
    ) -> None:
        self.states: dict[ir.Value, State] = {}
        self._bottom = bottom
        self._join = join
        self._transfer = transfer
        self._functions: dict[tuple[str, str, str], ir.Function] = {}

    def run(self, model: ir.Model, seed: Callable[[ir.Value], State]) -> None:
        """Propagate states through ``model``; ``seed`` returns the state of each graph input and initializer."""
        self._functions = dict(model.functions)
        for value in (*model.graph.initializers.values(), *model.graph.inputs):
            self.states[value] = seed(value)
        self._graph(model.graph)

    def state(self, value: ir.Value | None) -> State:
        """Return the state of a value; ``bottom`` if it is None or was not reached."""
        return self._bottom if value is None else self.states.get(value, self._bottom)

    def _graph(self, graph: ir.Graph | ir.Function) -> list[State]:
        for node in graph:
            inputs = [self.state(value) for value in node.inputs]
            after = self._transfer(node, inputs, self._inside(node, inputs))
            for index, value in enumerate(node.outputs):
                self.states[value] = after[index] if index < len(after) else self._bottom
        return [self.state(value) for value in graph.outputs]

    def _inside(self, node: ir.Node, inputs: list[State]) -> list[State] | None:
        function = self._functions.get(node.op_identifier())
        if function is not None:
            self._enter(function.inputs, inputs)
            return self._graph(function)
        bodies = list(subgraphs(node))
        if not bodies:
            return None
        if node.op_type == "Loop":
            # A body's first input is the counter, a node's is the trip count; the body's first output is the condition.
            return self._repeat(bodies[0], [self._bottom, *inputs[1:]], first_carried=2, skip_outputs=1)
        if node.op_type == "Scan":
            return self._repeat(bodies[0], inputs, first_carried=0, skip_outputs=0)
        if node.op_type == "SequenceMap":
            self._enter(bodies[0].inputs, inputs)
            return self._graph(bodies[0])
        outcomes = [self._graph(body) for body in bodies]
        return [self._joined(branch) for branch in zip(*outcomes, strict=False)]

    def _repeat(
        self, body: ir.Graph, inputs: list[State], *, first_carried: int, skip_outputs: int
    ) -> list[State]:
        # The carried outputs of each round are joined with its inputs, until nothing changes or LOOP_ROUNDS is reached.
        inputs = inputs + [self._bottom] * (len(body.inputs) - len(inputs))
        outputs: list[State] = []
        for _ in range(LOOP_ROUNDS):
            self._enter(body.inputs, inputs)
            outputs = self._graph(body)[skip_outputs:]
            carried = inputs[first_carried:]
            grown = [self._joined(pair) for pair in zip(carried, outputs, strict=False)]
            after = inputs[:first_carried] + grown + carried[len(grown) :]
            if after == inputs:
                break
            inputs = after
        return outputs

    def _enter(self, inside: Sequence[ir.Value], outside: list[State]) -> None:
        for value, state in zip(inside, outside, strict=False):
            self.states[value] = state

    def _joined(self, states: Sequence[State]) -> State:
        result = states[0]
        for state in states[1:]:
            result = self._join(result, state)
        return result
