"""Repeated regions: stretches of a graph that compute the same from other weights, such as equal layers.

Each node is known by a fingerprint of its own: operator, attributes, types and shapes of its weights. Names, values of
weights and the indices at which each step reads do not count. A region is a stretch of nodes, in the order of the file,
whose fingerprints come again right after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from ortune.graph.constants import stored
from ortune.graph.fingerprints import Fingerprints, digest, weight_kind
from ortune.graph.model.graphs import graphs, name_of, op_set
from ortune.graph.nodes import is_op, operator

SMALLEST = 3
"""Nodes of a copy: what is smaller is a pair such as Conv and Relu, which says nothing of a model."""
LARGEST = 1500
MOST_NODES = 100_000
"""Nodes of a graph that is read: each possible length of a copy takes one pass."""
_PLACED = op_set("Concat Gather Pad Reshape Slice Split Squeeze Transpose Unsqueeze")
"""Operators whose attributes say where to read: another place in each step of a loop that was written out."""

Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Copies of one stretch of nodes, one right after the other.

    Attributes:
        copies: How many there are, two or more.
        nodes: Names of the nodes of all copies, in the order of the file.
        operators: Nodes of all copies by operator, the most frequent first.
    """

    copies: int
    nodes: tuple[str, ...]
    operators: dict[str, int]

    @property
    def n_nodes(self) -> int:
        """Nodes of one copy."""
        return len(self.nodes) // self.copies


def regions(model: ir.Model) -> list[Region]:
    """Return every repeated region of every graph, the one with the most nodes first; none overlaps another."""
    every = [region for graph in graphs(model) for region in _of_graph(graph)]
    return sorted(every, key=lambda region: -len(region.nodes))


def share(region: Region, weights: Mapping[str, float], total: float | None = None) -> float:
    """Return the part of all weights, such as times or operations by node, that a region has; 0 where there are none.

    Args:
        region: What has the part.
        weights: By the names of nodes.
        total: All weights, if some belong to no node of the model.
    """
    total = sum(weights.values()) if total is None else total
    return sum(weights.get(name, 0.0) for name in set(region.nodes)) / total if total else 0.0


def _of_graph(graph: ir.Graph | ir.Function) -> Iterator[Region]:
    nodes = [node for node in graph if not is_op(node, "Constant")]
    if not 2 * SMALLEST <= len(nodes) <= MOST_NODES:
        return
    numbers: dict[str, int] = {}
    prints = Fingerprints()
    labels = np.array([numbers.setdefault(_print(node, prints), len(numbers)) for node in nodes])
    operators = np.unique([operator(node) for node in nodes], return_inverse=True)[1]
    taken = np.zeros(len(nodes), dtype=bool)
    # The stretch that covers the most nodes wins; of several lengths that cover the same the shortest is the layer.
    for start, size, copies in sorted(_stretches(labels), key=lambda s: (-s[1] * s[2], s[1])):
        end = start + size * copies
        # A row of nodes of one operator is no layer.
        if taken[start:end].any() or (operators[start:end] == operators[start]).all():
            continue
        inside = nodes[start:end]
        counts = Counter(map(operator, inside))
        taken[start:end] = True
        yield Region(
            copies=copies,
            nodes=tuple(map(name_of, inside)),
            operators=dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        )


def _print(node: ir.Node, prints: Fingerprints) -> str:
    attributes: Iterable[str] = ()
    if node.op_type not in _PLACED:
        attributes = prints.attributes(
            a for a in node.attributes.values() if a.type != ir.AttributeType.GRAPH
        )
    return digest(operator(node), *attributes, "inputs", *map(_fed_by, node.inputs))


def _fed_by(value: ir.Value | None) -> str:
    if value is None:
        return ""
    tensor = stored(value)
    if tensor is not None:
        return weight_kind(tensor.dtype, tensor.shape)
    return "computed"  # by whichever operator: the first layer is fed by another one than its copies


def _stretches(labels: Labels) -> Iterator[tuple[int, int, int]]:
    """Find where a stretch of labels comes again right after itself: start, length and copies."""
    for size in range(SMALLEST, min(LARGEST, len(labels) // 2) + 1):
        same = labels[size:] == labels[:-size]
        if np.count_nonzero(same) < size:
            continue
        ends = np.diff(np.concatenate(([False], same, [False])).astype(np.int8))
        # A run of k labels that are equal to those size places on makes k // size copies behind the first.
        for start, end in zip(np.flatnonzero(ends == 1), np.flatnonzero(ends == -1), strict=True):
            if end - start >= size:
                yield int(start), size, int((end - start) // size) + 1
