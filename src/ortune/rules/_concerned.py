"""The nodes that a finding names and their share of a run, by identity and not by empty or shared names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache

import onnx_ir as ir

from ortune.graph.model.graphs import name_of, nodes
from ortune.records import Finding, ModelCost, ProfileResult

OPERATIONS_A_BYTE = 16.0
"""Operations that a core computes while it reads one byte from memory: 50 to 100 GFLOP/s against 3 to 6 GB/s. The order
of magnitude suffices to estimate fractions."""
UNLIKE_THEIR_WORK = frozenset({"DFT", "STFT"})
"""Operators that take many times as long as others for the same operations and bytes. If the model contains such an
operator, fractions of work do not predict fractions of time."""


def named_nodes(finding: Finding, model: ir.Model) -> list[ir.Node]:
    """Return the nodes that a finding names; empty if a name is ambiguous among nodes and weights."""
    by_name = _by_name(model)
    tensors = {value.name for value in (*model.graph.inputs, *model.graph.initializers.values())}
    named = Counter(name for name in finding.where if name in by_name and name not in tensors)
    # Two nodes have the name, but it was given once: either may be meant.
    if any(n != len(by_name[name]) for name, n in named.items()):
        return []
    return [node for name in named for node in by_name[name]]


def readers(model: ir.Model, names: Collection[str]) -> list[ir.Node]:
    """Return the nodes of the main graph that read the named values, or values computed only from the named values."""
    names_read, readers_ = set(names), []
    for node in model.graph:
        read = {value.name or "" for value in node.inputs if value is not None}
        if names_read & read:
            readers_.append(node)
            # A node that also reads other values is included, but its readers are not.
            if names_read >= read:
                names_read |= {value.name or "" for value in node.outputs}
    return readers_


def share_of_run(
    concerned: Sequence[ir.Node], model: ir.Model, run: ProfileResult
) -> tuple[float, float] | None:
    """Return (fraction of a profiled run that the nodes take, upper bound that includes unmapped nodes).

    Returns None if no node is found by name in the profile, or if a name is ambiguous.
    """
    steps = _steps(model)
    mine = {name for node in concerned for name in steps.get(node, ())}
    if mine & {name for node, names in steps.items() if node not in {*concerned} for name in names}:
        return None
    ran = [node for node in run.nodes if mine.intersection(node.originals or (node.name,))]
    if not ran or not run.wall_ns:
        return None
    time_ns = sum(node.time_ns for node in ran)
    unmapped_ns = sum(n.time_ns for n in run.nodes if n.name in {*run.unmapped} and not n.originals)
    return time_ns / run.wall_ns, min(1.0, (time_ns + unmapped_ns) / run.wall_ns)


def share_of_work(concerned: Sequence[ir.Node], model: ir.Model, cost: ModelCost) -> float | None:
    """Return the fraction of a run's operations and bytes that the nodes account for; None if unknown or zero.

    The fraction is unknown if a name is ambiguous, or if an operator's time does not follow from its work.
    """
    if any(node.op_type in UNLIKE_THEIR_WORK and node.times for node in cost.nodes):
        return None
    by_name = _by_name(model)
    mine = Counter(map(name_of, concerned))
    if any(n != len(by_name[name]) for name, n in mine.items()):
        return None
    total = part = 0.0
    for node in cost.nodes:
        work = node.times * max(node.flops, OPERATIONS_A_BYTE * (node.bytes_read + node.bytes_written))
        total += work
        part += work if node.called in mine else 0.0
    return part / total if part and total else None


@lru_cache(maxsize=1)
def _by_name(model: ir.Model) -> dict[str, list[ir.Node]]:
    nodes_by_name: dict[str, list[ir.Node]] = {}
    for node in nodes(model):
        nodes_by_name.setdefault(name_of(node), []).append(node)
    return nodes_by_name


@lru_cache(maxsize=1)
def _steps(model: ir.Model) -> dict[ir.Node, frozenset[str]]:
    from ortune.graph.mapping import step_names  # needed only with a profile, which a check does not have

    return step_names(model)
