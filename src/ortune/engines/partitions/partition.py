"""The regions of a model that a provider takes, and the reasons why other nodes remain on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ortune.engines.partitions.facts import NodeFacts, reason
from ortune.engines.partitions.regions import Wiring, boundary, grouped
from ortune.engines.partitions.support import Format
from ortune.engines.partitions.units import Unit, units_of
from ortune.graph.model.garbage import without_collection
from ortune.graph.shapes.complete import complete_values
from ortune.graph.shapes.known import Values
from ortune.records import NodeReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRegion:
    """Nodes that are assigned to a provider together.

    Attributes:
        nodes: The nodes in execution order.
        inputs, outputs: Tensors that cross the region's boundary, except constants.
    """

    nodes: tuple[ir.Node, ...]
    inputs: tuple[ir.Value, ...]
    outputs: tuple[ir.Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """The part of a model's main graph that a provider takes.

    Attributes:
        format: The provider.
        release: Release of ONNX Runtime whose operator list was used; "" if the provider did not exist yet.
        regions: The regions in execution order.
        left: Nodes that remain on the CPU, except nodes of subgraphs, each with the first reason.
        values: Shapes and types of the model's values.
        wiring: Dependencies of the nodes.
    """

    format: Format
    release: str
    regions: tuple[ProviderRegion, ...]
    left: Mapping[ir.Node, NodeReason]
    values: Values
    wiring: Wiring

    @property
    def taken(self) -> frozenset[ir.Node]:
        """The nodes that the provider takes."""
        return frozenset(node for region in self.regions for node in region.nodes)


@without_collection()
def partition(model: ir.Model, format_: Format, release: str = "", values: Values | None = None) -> Partition:
    """Return the partition of a model for a provider.

    Pass a model that was optimised at level basic, as ONNX Runtime does before it partitions a model. Nodes of
    subgraphs are never taken.

    Args:
        model: The model; it is not changed.
        format_: The provider.
        release: Release of ONNX Runtime; "" for the newest known.
        values: Shapes and types of the model's values; None to infer them.
    """
    values = complete_values(model) if values is None else values
    wiring = Wiring(units_of(model.graph, qdq=format_.qdq))
    refused = refusals(model, wiring.units, values, format_, release)
    stops = [unit for unit in wiring.units if unit.target.op_type in format_.stop]
    behind = wiring.downstream(stops)
    # Nothing after a stop operator is taken.
    for unit in wiring.units:
        if id(unit) in behind and id(unit) not in refused:
            refused[id(unit)] = reason("behind-stop", stops[0].target.op_type)
    groups = groups_of(wiring, format_, refused)
    kept = {id(unit) for group in groups for unit in group}
    left = {
        node: refused.get(id(unit)) or reason("alone")
        for unit in wiring.units
        if id(unit) not in kept
        for node in unit.nodes
    }
    regions = []
    for group in groups:
        nodes = tuple(node for unit in group for node in unit.nodes)
        inputs, outputs = boundary(nodes)
        regions.append(ProviderRegion(nodes=nodes, inputs=tuple(inputs), outputs=tuple(outputs)))
    return Partition(
        format=format_,
        release=format_.table.release(release),
        regions=tuple(regions),
        left=left,
        values=values,
        wiring=wiring,
    )


def refusals(
    model: ir.Model, units: Sequence[Unit], values: Values, format_: Format, release: str
) -> dict[int, NodeReason]:
    """Return the reason that a unit is not taken, keyed by ``id(unit)``, for all units that are not."""
    reasons = {}
    for unit in units:
        opset = model.opset_imports.get(unit.target.domain, 1)
        why = format_.refusal(NodeFacts(unit, values, opset), release)
        if why is not None:
            reasons[id(unit)] = why
    return reasons


def groups_of(wiring: Wiring, format_: Format, refused: Mapping[int, object]) -> list[list[Unit]]:
    """Return the groups of units that a provider takes, without groups that would only copy.

    Args:
        wiring: Dependencies of the units.
        format_: The provider.
        refused: Units that the provider does not support, keyed by ``id(unit)``.
    """
    groups = grouped(wiring, {id(unit): id(unit) not in refused for unit in wiring.units})
    return [g for g in groups if not (len(g) == 1 and g[0].target.op_type in format_.not_alone)]
