"""Operations and bytes of the nodes of an optimized graph: counted directly, or inherited from the original nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import onnx_ir as ir

from ortune.graph.attributes import graphs_of
from ortune.graph.cost.graph import FOLDED
from ortune.graph.mapping.result import Mapping
from ortune.graph.model.graphs import op_set, own_name
from ortune.records import NodeCost

_BODIES = op_set("If Loop Scan SequenceMap")


def inherited(
    mapping: Mapping, optimised_costs: Sequence[NodeCost], original_costs: Sequence[NodeCost]
) -> dict[str, tuple[float, float]]:
    """Return (operations, bytes) of one execution of each node, by the node's name in the mapping.

    A node with known operator and shapes is counted directly. Any other node has the sum of its originals, without
    bytes that stay inside the node. Nodes with neither are missing from the result, as are nodes that share their
    originals with other nodes, and names of several nodes with different work (in different subgraphs).
    """
    work_of: dict[str, tuple[float, float]] = {}
    unclear: set[str] = set()
    for place, cost in _placed(optimised_costs):
        name = mapping.keys.get(place, place)
        if not cost.known:
            continue
        work = (float(cost.flops), float(cost.bytes_read + cost.bytes_written))
        if work_of.setdefault(name, work) != work:
            unclear.add(name)
    own = costs_by_name(original_costs)
    groups = Counter(frozenset(steps) for steps in mapping.originals.values())
    for name, steps in mapping.originals.items():
        if name not in work_of and groups[frozenset(steps)] == 1:
            work_of_all = _sum(mapping, name, own)
            if work_of_all is not None:
                work_of[name] = work_of_all
    return {name: work for name, work in work_of.items() if name not in unclear}


def _sum(mapping: Mapping, name: str, own: dict[str, list[NodeCost]]) -> tuple[float, float] | None:
    """Return (operations, bytes), summed over a node's originals; None if one is unknown or has an ambiguous name."""
    flops = size = 0.0
    for step in mapping.originals[name]:
        if step in mapping.merged:
            continue
        costs = own.get(step, [])
        if len(costs) != 1 or not costs[0].known:
            return None
        if costs[0].note.startswith(FOLDED):
            continue  # computed once; its readers count the result as a weight
        flops += costs[0].flops
        size += costs[0].bytes_read
        size += 0 if step in mapping.hidden.get(name, ()) else costs[0].bytes_written
    for step, reads in mapping.spared.get(name, {}).items():
        costs = own.get(step, [])
        if len(costs) == 1 and costs[0].known and not costs[0].note.startswith(FOLDED):
            size -= reads * costs[0].bytes_written
    return flops, max(size, 0.0)


def weights(mapping: Mapping, optimised_costs: Sequence[NodeCost]) -> dict[str, int]:
    """Return the bytes of constants that one execution of each node reads, by the node's name in the mapping."""
    return {mapping.keys.get(place, place): cost.weight_bytes for place, cost in _placed(optimised_costs)}


def costs_by_name(costs: Sequence[NodeCost]) -> dict[str, list[NodeCost]]:
    """Group node costs by node name."""
    costs_of: dict[str, list[NodeCost]] = {}
    for place, cost in _placed(costs):
        costs_of.setdefault(place, []).append(cost)
    return costs_of


def placed(graph: ir.Graph, path: str = "") -> Iterator[tuple[str, ir.Node]]:
    """Yield every node of a graph with its name in the mapping."""
    for place, node in enumerate(graph):
        name = own_name(node) or f"{path}{node.op_type}#{place}"
        yield name, node
        for attribute, inner in graphs_of(node):
            branch = f"{attribute}/" if node.op_type == "If" else ""
            yield from placed(inner, f"{name}/{branch}")


def remarks(mapping: Mapping, optimised_costs: Sequence[NodeCost]) -> dict[str, str]:
    """Return the notes of the nodes' costs, by node name in the mapping."""
    return {
        mapping.keys.get(place, place): cost.note
        for place, cost in _placed(optimised_costs)
        if cost.known and cost.note and not cost.note.startswith(FOLDED)
    }


def _placed(costs: Sequence[NodeCost]) -> Iterator[tuple[str, NodeCost]]:
    """Yield each node's cost with the name that ``model_view`` gives the node."""
    paths: dict[str, tuple[str, int]] = {"": ("", 0)}
    for cost in costs:
        path, place = paths.get(cost.inside, ("", 0))
        paths[cost.inside] = (path, place + 1)
        name = cost.name or f"{path}{cost.op_type}#{place}"
        if cost.op_type in _BODIES:
            below = "/".join(filter(None, (cost.inside, cost.name or cost.op_type)))
            paths[below] = (f"{name}/", 0)
            for branch in ("then_branch", "else_branch"):
                paths[f"{below}/{branch}"] = (f"{name}/{branch}/", 0)
        yield name, cost
