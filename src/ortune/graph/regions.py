"""Repeated regions: consecutive stretches of a graph with equal structure but different weights, such as equal layers.

Each node has a fingerprint: operator, attributes, and types and shapes of its weights. Names, weight values and
the positions that steps of an unrolled loop read are ignored. A region is a stretch of nodes, in file order, with
fingerprints that repeat directly after it.
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
"""Minimum number of nodes per copy; shorter patterns, such as Conv and Relu, are too common to be informative."""
LARGEST = 1500
MOST_NODES = 100_000
"""Maximum number of nodes of a graph that is searched, since each possible copy length takes one pass."""
_PLACED = op_set("Concat Gather Pad Reshape Slice Split Squeeze Transpose Unsqueeze")
"""Operators with attributes that select a position, which differs between the steps of an unrolled loop."""

Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Consecutive copies of one stretch of nodes.

    Attributes:
        copies: Number of copies, at least two.
        nodes: Names of the nodes of all copies, in file order.
        operators: Number of nodes of all copies by operator, most frequent first.
    """

    copies: int
    nodes: tuple[str, ...]
    operators: dict[str, int]

    @property
    def n_nodes(self) -> int:
        """Number of nodes per copy."""
        return len(self.nodes) // self.copies


def regions(model: ir.Model) -> list[Region]:
    """Return the repeated regions of all graphs, largest first; regions do not overlap."""
    every = [region for graph in graphs(model) for region in _of_graph(graph)]
    return sorted(every, key=lambda region: -len(region.nodes))


def share(region: Region, weights: Mapping[str, float], total: float | None = None) -> float:
    """Return a region's fraction of the total weight, such as time or operations per node; 0 if the total is 0.

    Args:
        region: The region.
        weights: Weight of each node, by node name.
        total: The total weight, if larger than the sum of ``weights``; by default this sum.
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
    # The stretch that covers the most nodes wins; among lengths that cover the same number, the shortest is the
    # layer.
    for start, size, copies in sorted(_stretches(labels), key=lambda s: (-s[1] * s[2], s[1])):
        end = start + size * copies
        # Consecutive nodes of one operator are not a layer.
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
    return "computed"  # regardless of the operator: the first layer has another producer than its copies


def _stretches(labels: Labels) -> Iterator[tuple[int, int, int]]:
    """Yield (start, length per copy, copies) of each stretch of labels that repeats directly after itself."""
    for size in range(SMALLEST, min(LARGEST, len(labels) // 2) + 1):
        same = labels[size:] == labels[:-size]
        if np.count_nonzero(same) < size:
            continue
        ends = np.diff(np.concatenate(([False], same, [False])).astype(np.int8))
        # k consecutive labels that equal those `size` positions later mean k // size copies after the first.
        for start, end in zip(np.flatnonzero(ends == 1), np.flatnonzero(ends == -1), strict=True):
            if end - start >= size:
                yield int(start), size, int((end - start) // size) + 1
