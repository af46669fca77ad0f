"""Size of a graph with functions inlined and loops followed, which is checked before the graph is walked.

If a function calls another twice, which calls a third twice, and so on, a file of a few lines has more nodes than fit
in any memory. Analyses and ONNX Runtime itself inline functions and walk loop bodies until no new facts appear, so the
work for a file is known only after this multiplication.
"""

from __future__ import annotations

import graphlib
from collections import Counter
from collections.abc import Mapping

import onnx_ir as ir

from ortune.errors import ModelError
from ortune.graph.model.graphs import nodes, scopes, subgraphs

LOOP_ROUNDS = 8
"""Maximum number of passes over a loop body."""

MOST_VISITS = 300_000
"""Number of node visits allowed for any file; a larger file is allowed ``_FOR_EACH`` visits per node."""

_FOR_EACH = LOOP_ROUNDS**2
"""Visits allowed per node of a large file: enough for one loop nested in another."""

_MOST_CALLS = 64
"""Maximum nesting depth of function calls and subgraphs; exporters stay below 20."""


def require_bounded(model: ir.Model, where: str) -> None:
    """Check that the functions and loops of a model can be followed.

    Raises:
        ModelError: If a function calls itself, calls nest too deeply, or there are too many nodes to visit.
    """
    extent = _Extent(dict(model.functions), where)
    for scope in scopes(model):
        extent.visits(scope, 0)
    # A file of 10,000 nodes is allowed 64 x 10,000 = 640,000 visits, those of a loop in a loop per node.
    allowed = max(MOST_VISITS, _FOR_EACH * sum(1 for _ in nodes(model)))
    visits, _ = extent.visits(model.graph, 0)
    if visits > allowed:
        # Calls that double 64 times, in nested loops, give numbers of hundreds of digits, which are shown as a
        # power.
        amount = f"{visits:,}" if visits < 1 << 64 else f"more than 2^{visits.bit_length() - 1}"
        raise ModelError(
            f"Its nested functions and loops expand to {amount} nodes; "
            f"{allowed:,} is the maximum for a file of this size.",
            where=where,
            do="Export the model again with fewer functions that call each other, or fewer loops in loops.",
        )


def copies(model: ir.Model) -> dict[ir.OperatorIdentifier, int]:
    """Map each function to the number of times it is inlined; the model must not contain recursive functions."""
    calls = {name: _calls(function, model.functions) for name, function in model.functions.items()}
    times_written = dict.fromkeys(model.functions, 0) | _calls(model.graph, model.functions)
    # Callers first: the count of a function must be final before its calls are multiplied by it.
    callees_first = graphlib.TopologicalSorter({name: set(called) for name, called in calls.items()})
    for name in reversed([*callees_first.static_order()]):
        for called, times in calls[name].items():
            times_written[called] += times * times_written[name]
    return times_written


def written_nodes(model: ir.Model) -> int:
    """Return the number of nodes with functions inlined, as ONNX Runtime runs them."""
    bodies = sum(times * len([*model.functions[name].all_nodes()]) for name, times in copies(model).items())
    return len([*model.graph.all_nodes()]) + bodies


def _calls(
    graph: ir.Graph | ir.Function, functions: Mapping[ir.OperatorIdentifier, ir.Function]
) -> Counter[ir.OperatorIdentifier]:
    return Counter(name for node in graph.all_nodes() if (name := node.op_identifier()) in functions)


class _Extent:
    """Counter of node visits that walks each function once."""

    def __init__(self, functions: dict[ir.OperatorIdentifier, ir.Function], where: str) -> None:
        self._functions = functions
        self._where = where
        self._known: dict[ir.OperatorIdentifier, tuple[int, int]] = {}
        self._calling: list[ir.OperatorIdentifier] = []

    def visits(self, graph: ir.Graph | ir.Function, depth: int) -> tuple[int, int]:
        """Return the number of node visits for a graph, nested graphs included, and the number of nested levels."""
        visits = height = 0
        for node in graph:
            visits += 1
            rounds = LOOP_ROUNDS if node.op_type in ("Loop", "Scan") else 1
            below = [self.visits(body, depth + 1) for body in subgraphs(node)]
            if (called := self._extent_of_function(node.op_identifier(), depth + 1)) is not None:
                below.append(called)
            for inner, levels in below:
                visits += rounds * inner
                height = max(height, levels + 1)
        # The height is stored with the function, so excessive nesting is rejected on every path, although the body
        # is walked only once.
        if depth + height > _MOST_CALLS:
            raise ModelError(
                f"Its functions and subgraphs are nested more than {_MOST_CALLS} levels deep in each other.",
                where=self._where,
                do="Export the model again; real models do not nest this deep.",
            )
        return visits, height

    def _extent_of_function(self, name: ir.OperatorIdentifier, depth: int) -> tuple[int, int] | None:
        function = self._functions.get(name)
        if function is None:
            return None
        if name in self._calling:
            raise ModelError(
                f"The function {name[1]!r} calls itself, which ONNX forbids.",
                where=self._where,
                do="Export the model again, with a Loop instead of the recursion.",
            )
        if name not in self._known:
            if depth > _MOST_CALLS:
                return 0, 0  # too deep, which the caller rejects
            self._calling.append(name)
            self._known[name] = self.visits(function, depth)
            self._calling.pop()
        return self._known[name]
