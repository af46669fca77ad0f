"""Separates the nodes that a provider does not support from a model, and puts them back after their optimisation."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from ortune.errors import OrtuneError
from ortune.rewrites import release


def with_types(model: ir.Model, typed: ir.Model) -> None:
    """Copy missing types and shapes of the main graph's values from the values of the same names in ``typed``."""
    twins = {v.name: v for node in typed.graph for v in node.outputs}
    for node in model.graph:
        for value in node.outputs:
            twin = twins.get(value.name)
            if twin is not None and value.type is None:
                value.type, value.shape = twin.type, twin.shape


def rest_of(model: ir.Model, kept: Collection[int]) -> ir.Model:
    """Return a copy without the kept nodes: the results of these nodes become inputs, and their operands outputs.

    Args:
        model: The model, which is not changed, with known types of the values between both parts.
        kept: Indices of the kept nodes in the main graph.
    """
    rest = model.clone()
    graph = rest.graph
    order = list(graph)
    taken = {order[place]: None for place in sorted(kept)}
    needed = {value for node in taken for value in node.inputs if value is not None}
    ends = [
        value
        for node in order
        if node not in taken
        for value in node.outputs
        if value in needed or value.is_graph_output()
    ]
    graph.outputs.clear()
    for node in taken:
        for value in node.outputs:
            if all(use.node in taken for use in value.uses()):
                continue
            # With the same name, by which put_back joins the two parts again.
            stand_in = ir.Value(name=value.name, type=value.type, shape=value.shape)
            value.replace_all_uses_with(stand_in)
            graph.inputs.append(stand_in)
    graph.remove(list(taken), safe=True)
    graph.outputs.extend(ends)
    _drop_unused(graph)
    return rest


def put_back(model: ir.Model, kept: Collection[int], optimised: ir.Model) -> ir.Model:
    """Return the model with its kept nodes, and with the optimised nodes in place of all others.

    Args:
        model: The model; it is not changed.
        kept: Indices of the kept nodes in the main graph.
        optimised: The model from ``rest_of`` after its optimisation; its nodes are moved out of it.

    Raises:
        OrtuneError: Two nodes would depend on each other's results.
    """
    whole = model.clone()
    graph, new = whole.graph, optimised.graph
    order = list(graph)
    old = [node for place, node in enumerate(order) if place not in set(kept)]
    gone = {value.name: value for node in old for value in node.outputs}
    present: dict[str | None, ir.Value] = {value.name: value for value in graph.inputs}
    present |= dict(graph.initializers.items())
    present |= {v.name: v for place in kept for v in order[place].outputs}
    moved = list(new)
    ends = dict.fromkeys(new.outputs)
    new.outputs.clear()
    for value in new.inputs:
        value.replace_all_uses_with(present[value.name])
    stored = _stored(graph, list(new.initializers.values()), present)
    for value in ends:
        here = stored.get(value, present.get(value.name, value))
        gone[value.name].replace_all_uses_with(here, replace_graph_outputs=True)
    for node in old:
        release(node)
    graph.remove(old, safe=True)
    new.remove(moved)
    for node in moved:
        for value in node.outputs:
            # The optimiser names new nodes, and does not know the names of the kept nodes.
            if value not in ends and value.name in present:
                value.name = _free(value.name, present)
    graph.extend(moved)
    whole.opset_imports.update(
        {domain: n for domain, n in optimised.opset_imports.items() if domain not in whole.opset_imports}
    )
    try:
        # A fusion of nodes before and after a kept node would have to run both before and after that node.
        graph.sort()
    except ValueError as error:
        raise OrtuneError(
            "Nodes that were fused outside the provider's regions depend on each other.",
            where="provider-aware file",
            do="Use level basic for this provider.",
            code="not-aware",
        ) from error
    for node in reversed(list(graph)):
        # The other nodes may have read only the shape of a kept node's result, which is known.
        if not any(value.uses() or value.is_graph_output() for value in node.outputs):
            graph.remove(node, safe=True)
    _drop_unused(graph)
    return whole


def _stored(
    graph: ir.Graph, initializers: Collection[ir.Value], present: dict[str | None, ir.Value]
) -> dict[ir.Value, ir.Value]:
    """Move the initializers of the optimised part into the graph; return the new value for each."""
    now: dict[ir.Value, ir.Value] = {}
    for value in initializers:
        twin = graph.initializers.get(value.name or "")
        if twin is not None and _equal(twin.const_value, value.const_value):
            now[value] = twin
        else:
            name = _free(value.name, present) if value.name in present else value.name
            now[value] = ir.Value(
                name=name, type=value.type, shape=value.shape, const_value=value.const_value
            )
            graph.register_initializer(now[value])
            present[name] = now[value]
        value.replace_all_uses_with(now[value])
    return now


def _equal(a: ir.TensorProtocol | None, b: ir.TensorProtocol | None) -> bool:
    if a is None or b is None or (a.dtype, list(a.shape)) != (b.dtype, list(b.shape)):
        return False
    if a.dtype == ir.DataType.STRING:
        return bool((a.numpy() == b.numpy()).all())
    return a.tobytes() == b.tobytes()


def _free(name: str | None, present: dict[str | None, ir.Value]) -> str:
    number = 1
    while f"{name}_rest{number}" in present:
        number += 1
    return f"{name}_rest{number}"


def _drop_unused(graph: ir.Graph) -> None:
    """Remove initializers that nothing reads and that are not inputs."""
    for name, value in list(graph.initializers.items()):
        if not (value.uses() or value.is_graph_output() or value.is_graph_input()):
            del graph.initializers[name]
