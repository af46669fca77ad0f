"""Validity check of a model after a rewrite."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from ortune.graph.model.graphs import FREE_INITIALIZERS_IR, scopes, subgraphs

Names = tuple[dict[str, ir.Value], ...]


def problem(model: ir.Model) -> str:
    """Return the first reason that a model is invalid, as a clause; "" if the model is valid."""
    if model.ir_version < FREE_INITIALIZERS_IR and any(
        not value.is_graph_input() for value in model.graph.initializers.values()
    ):
        return f"IR version {model.ir_version} requires every initializer among the graph inputs"
    for scope in scopes(model):
        domains = model.opset_imports if isinstance(scope, ir.Graph) else scope.opset_imports
        reason = _problem(scope, (), domains)
        if reason:
            return reason
    return ""


def _problem(graph: ir.Graph | ir.Function, outside: Names, domains: dict[str, int]) -> str:
    """Return why a graph is invalid, or ""; ``outside`` has the values of outer scopes by name, innermost first."""
    initializers = graph.initializers if isinstance(graph, ir.Graph) else {}
    for name, value in initializers.items():
        if value.const_value is None or value.name != name:
            return f"the initializer {name!r} has no value"
    start = [*graph.inputs, *(v for v in initializers.values() if not v.is_graph_input())]
    own: dict[str, ir.Value] = {}
    visible = (own, *outside)

    def add(values: Iterable[ir.Value], taken: Names) -> str:
        for value in values:
            if any(value.name in names for names in taken):
                return f"the name {value.name!r} is used twice"
            if value.name:
                own[value.name] = value
        return ""

    def is_read(value: ir.Value) -> bool:
        """Return whether the name of a value refers to that value here, and not to another value that hides it."""
        return next((names[value.name] for names in visible if value.name in names), None) is value

    def walk() -> str:
        # Inputs and weights may have the names of outer values, which they hide.
        reason = add(start, (own,))
        for node in graph:
            if reason:
                return reason
            if node.domain not in domains and domains:
                return f"{node.op_type} has the domain {node.domain!r}, which the model does not import"
            for value in node.inputs:
                if value is not None and not is_read(value):
                    return f"{node.op_type} {node.name or ''!r} reads {value.name!r}, which no earlier node produces"
            inner = (_problem(g, visible, domains) for g in subgraphs(node))
            reason = next(filter(None, inner), "") or add(node.outputs, visible)
        return reason or next(
            (f"no node produces the output {v.name!r}" for v in graph.outputs if not is_read(v)), ""
        )

    return walk()
