"""Groups nodes greedily into convex regions for one provider, as ONNX Runtime's partitioner does."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence

import onnx_ir as ir

from ortune.engines.partitions.units import Unit, read_by


class Wiring:
    """Dependencies between the units of a graph.

    Attributes:
        units: The units in the graph's order.
        before: Units that produce a unit's inputs, repeated for each input, keyed by ``id(unit)``.
        behind: Units that read a unit's results, keyed by ``id(unit)``.
    """

    def __init__(self, units: Sequence[Unit]) -> None:
        self.units = tuple(units)
        maker = {value: unit for unit in units for node in unit.nodes for value in node.outputs}
        self.before: dict[int, list[Unit]] = {}
        self.behind: dict[int, list[Unit]] = {id(unit): [] for unit in units}
        for unit in units:
            read = [value for node in unit.nodes for value in read_by(node)]
            producers = [maker[value] for value in read if value in maker and maker[value] is not unit]
            self.before[id(unit)] = producers
            for other in producers:
                self.behind[id(other)].append(unit)

    def downstream(self, first: Collection[Unit]) -> set[int]:
        """Return the ids of all units that depend on these, directly or indirectly."""
        reached: set[int] = set()
        waiting = [reader for unit in first for reader in self.behind[id(unit)]]
        while waiting:
            unit = waiting.pop()
            if id(unit) not in reached:
                reached.add(id(unit))
                waiting += self.behind[id(unit)]
        return reached


def grouped(wiring: Wiring, takes: Mapping[int, bool]) -> list[list[Unit]]:
    """Return the groups of units that are assigned together, in execution order.

    A group grows along the graph through all supported units whose inputs are available. An unsupported unit that reads
    a value of the group waits, with all units after it, until the group is complete. So no value leaves a group and
    re-enters it.

    Args:
        wiring: Dependencies of the units.
        takes: Whether the provider supports a unit, keyed by ``id(unit)``.
    """
    missing = Counter({id(unit): len(wiring.before[id(unit)]) for unit in wiring.units})
    ready = deque(unit for unit in wiring.units if not missing[id(unit)])
    waiting: deque[Unit] = deque()
    groups: list[list[Unit]] = []
    group: list[Unit] = []
    edge: set[int] = set()
    while ready or waiting:
        if not ready:
            if group:
                groups.append(group)
            group, edge, ready, waiting = [], set(), waiting, deque()
            continue
        unit = ready.popleft()
        # An unsupported unit that reads a value of the open group can run only after the group. All others continue,
        # even if they are later in the graph.
        taken = takes[id(unit)]
        if not taken and id(unit) in edge:
            waiting.append(unit)
            continue
        if taken:
            group.append(unit)
        for other in wiring.behind[id(unit)]:
            if taken:
                edge.add(id(other))
            missing[id(other)] -= 1
            if not missing[id(other)]:
                ready.append(other)
    return [*groups, group] if group else groups


def boundary(nodes: Sequence[ir.Node]) -> tuple[list[ir.Value], list[ir.Value]]:
    """Return the outer tensors that nodes read, except constants, and the nodes' results that other nodes read."""
    inside = set(nodes)
    read = dict.fromkeys(value for node in nodes for value in read_by(node))
    inputs = [value for value in read if value.producer() not in inside and not _stored(value)]
    outputs = [
        value
        for node in nodes
        for value in node.outputs
        if value.is_graph_output() or any(use.node not in inside for use in value.uses())
    ]
    return inputs, outputs


def _stored(value: ir.Value) -> bool:
    producer = value.producer()
    return value.is_initializer() if producer is None else producer.op_type == "Constant"
