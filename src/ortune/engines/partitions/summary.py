"""Describes a partition in records: its regions, the nodes left, and the operator that splits the model most."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir

from ortune.engines.partitions.partition import Partition, groups_of
from ortune.graph.cost import costs
from ortune.graph.model.graphs import name_of
from ortune.graph.nodes import operator
from ortune.graph.shapes.single_nodes import Dims
from ortune.graph.shapes.types import n_bytes
from ortune.records import (
    LeftOperator,
    NodeReason,
    PartitionRegion,
    PartitionState,
    PartitionVerdict,
    RewriteSpec,
)

Work = Mapping[ir.Node, float]
"""Fraction of the model's work, by node of the main graph."""

GOOD, SOME = 0.75, 0.5
"""Fractions of the work above which a provider with few regions surely or perhaps makes up for its copies."""


def work_shares(model: ir.Model, shapes: Mapping[str, Dims]) -> dict[ir.Node, float]:
    """Return the fraction of the model's operations, or of its bytes if it has no operations, of each main-graph node.

    Args:
        model: The model.
        shapes: Shapes of the model's inputs.
    """
    counted = costs(model, shapes)
    weights = [n.flops if counted.flops else n.bytes_read + n.bytes_written for n in counted.nodes]
    own: defaultdict[str, float] = defaultdict(float)
    for cost, weight in zip(counted.nodes, weights, strict=True):
        # Work in a subgraph belongs to its node.
        own[cost.inside.split("/")[0] if cost.inside else cost.called] += weight * cost.times
    total = math.fsum(own.values())
    return {node: own.get(name_of(node), 0.0) / total if total else 0.0 for node in model.graph}


def state(
    partition: Partition, work: Work, name: str, rewrites: Sequence[RewriteSpec] = ()
) -> PartitionState:
    """Return the state of a partition: how much of the model the provider takes, and in how many regions.

    Args:
        partition: The partition.
        work: Fraction of the model's work by node.
        name: Name of the state in ``PartitionState``.
        rewrites: The rewrites that produced the state.
    """
    taken = partition.taken
    share = math.fsum(work.get(node, 0.0) for node in taken)
    copied = [_bytes(partition, (*region.inputs, *region.outputs)) for region in partition.regions]
    return PartitionState(
        name=name,  # type: ignore[arg-type]
        verdict=_verdict(len(partition.regions), share),
        regions=len(partition.regions),
        n_nodes=len(taken) + len(partition.left),
        n_taken=len(taken),
        work_ratio=share,
        copied_bytes=None if None in copied else sum(filter(None, copied)),
        rewrites=tuple(rewrites),
    )


def _verdict(regions: int, share: float) -> PartitionVerdict:
    if not regions:
        return "none"
    if regions == 1 and share > GOOD:
        return "good"
    return "maybe" if regions <= 2 and share > SOME else "poor"


def regions(partition: Partition, work: Work) -> tuple[PartitionRegion, ...]:
    """Return the records of the regions, in execution order."""
    order = {node: place for place, node in enumerate(n for u in partition.wiring.units for n in u.nodes)}
    rows = []
    for region, behind in zip(partition.regions, _behind(partition), strict=True):
        counts = Counter(map(operator, region.nodes))
        rows.append(
            PartitionRegion(
                nodes=tuple(map(name_of, region.nodes)),
                operators=dict(counts.most_common()),
                work_ratio=math.fsum(work.get(node, 0.0) for node in region.nodes),
                inputs=len(region.inputs),
                outputs=len(region.outputs),
                input_bytes=_bytes(partition, region.inputs),
                output_bytes=_bytes(partition, region.outputs),
                behind=_grouped(behind, partition),
                places=_runs(sorted(order[node] for node in region.nodes)),
            )
        )
    return tuple(rows)


def nodes_on_cpu(partition: Partition) -> tuple[LeftOperator, ...]:
    """Return the nodes left on the CPU, by operator and reason, the most frequent first."""
    return _grouped(partition.left, partition)


def most_splitting_operator(partition: Partition, work: Work) -> tuple[LeftOperator, int] | None:
    """Return the operator that splits the model most, and the number of regions if it were supported.

    None if no single operator would reduce the number of regions, or add a tenth of the work to a single region.
    """
    refused = {
        id(unit): partition.left[unit.target]
        for unit in partition.wiring.units
        if unit.target in partition.left
    }
    choices = []
    for kind in nodes_on_cpu(partition):
        # Unknown sizes are not the fault of an operator.
        if kind.reason.code in ("dynamic-shape", "unknown-shape", "alone"):
            continue
        names = set(kind.nodes)
        freed = {
            id(unit)
            for unit in partition.wiring.units
            if operator(unit.target) == kind.op_type and name_of(unit.target) in names
        }
        rest = {key: why for key, why in refused.items() if key not in freed}
        groups = groups_of(partition.wiring, partition.format, rest)
        gained = math.fsum(work.get(unit.target, 0.0) for unit in partition.wiring.units if id(unit) in freed)
        if len(groups) < len(partition.regions) or (len(partition.regions) <= 1 and gained > 0.1):
            choices.append((len(groups), -gained, kind))
    if not choices:
        return None
    count, _, kind = min(choices, key=lambda choice: choice[:2])
    return kind, count


def _behind(partition: Partition) -> list[list[ir.Node]]:
    """Return for each region the CPU nodes that it needs and that read earlier regions.

    A node belongs to the first region that needs it. One pass over the regions is enough, since an earlier region that
    needs a node also needs all nodes before it.
    """
    wiring = partition.wiring
    units = {node: unit for unit in wiring.units for node in unit.nodes}
    region_of = {id(units[node]): number for number, r in enumerate(partition.regions) for node in r.nodes}
    needed_by: dict[int, int] = {}
    for number, region in enumerate(partition.regions):
        waiting = [other for node in region.nodes for other in wiring.before[id(units[node])]]
        while waiting:
            unit = waiting.pop()
            if id(unit) not in needed_by:
                needed_by[id(unit)] = number
                waiting += wiring.before[id(unit)]
    behind: list[list[ir.Node]] = [[] for _ in partition.regions]
    for unit in wiring.units:
        number = needed_by.get(id(unit), -1)
        if unit.target in partition.left and any(
            region_of.get(id(other), number) < number for other in wiring.before[id(unit)]
        ):
            behind[number].append(unit.target)
    return behind


def _grouped(nodes: Iterable[ir.Node], partition: Partition) -> tuple[LeftOperator, ...]:
    by_kind: defaultdict[tuple[str, NodeReason], list[str]] = defaultdict(list)
    for node in nodes:
        by_kind[operator(node), partition.left[node]].append(name_of(node))
    groups = sorted(by_kind.items(), key=lambda item: -len(item[1]))
    return tuple(LeftOperator(op_type=op, reason=why, nodes=tuple(names)) for (op, why), names in groups)


def _bytes(partition: Partition, values: Iterable[ir.Value]) -> int | None:
    """Return the total bytes of tensors; None if a size is unknown."""
    total = 0
    for value in values:
        sizes = partition.values.sizes(value)
        numbers = None if sizes is None or None in sizes else [n for n in sizes if n is not None]
        size = None if numbers is None else n_bytes(partition.values.inferred(value).dtype, numbers)
        if size is None:
            return None
        total += size
    return total


def _runs(places: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return runs of consecutive positions as (first position, length)."""
    runs: list[tuple[int, int]] = []
    for place in places:
        if runs and place == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((place, 1))
    return tuple(runs)
