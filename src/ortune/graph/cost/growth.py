"""Loops with carried values that grow by a constant amount per iteration, such as a key-value cache."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from ortune.graph.cost.known import Counter
from ortune.graph.shapes.single_nodes import Dims
from ortune.records import NodeCost

Floats = NDArray[np.float64]
_FIGURES = ("flops", "macs", "bytes_read", "bytes_written", "weight_bytes")


class LoopGrowth:
    """Linear growth of a loop's carried values from one iteration to the next."""

    def __init__(
        self,
        counter: Counter,
        body: ir.Graph,
        before: Sequence[ir.Value | None],
        after: Sequence[ir.Value],
    ) -> None:
        self._counter, self._body, self._after = counter, body, after
        self._types = [counter.dtype(value) for value in before]
        self._first = [counter.dims(value) for value in before]
        self._steps = [
            _difference(first, counter.dims(value)) for first, value in zip(self._first, after, strict=True)
        ]

    @property
    def changes_size(self) -> bool:
        """Whether any carried value changes its size, with all sizes known."""
        return all(step is not None for step in self._steps) and any(any(s or ()) for s in self._steps)

    def at(self, iteration: int) -> list[Dims | None]:
        """Return the carried shapes at the start of an iteration, counted from 0."""
        return [
            None
            if first is None or step is None
            else tuple(d + iteration * s for d, s in zip(first, step, strict=True))
            for first, step in zip(self._first, self._steps, strict=True)
        ]

    def mean(self, inside: str, iterations: int) -> list[NodeCost] | None:
        """Return the mean cost of each body node over the iterations; None if sizes do not change linearly."""
        last = iterations - 1
        # Four points determine a cubic, such as the work of a product over three growing sizes.
        at = sorted({0, min(1, last), (last + 1) // 2, last})
        counted = []
        for iteration in at:
            counted.append(self._counted(inside, iteration))
            if [self._counter.dims(value) for value in self._after] != self.at(iteration + 1):
                self._counted(inside, 0)
                return None
        weights = _weights(at, iterations)
        return [_mean(nodes, weights) for nodes in zip(*counted, strict=True)]

    def _counted(self, inside: str, iteration: int) -> list[NodeCost]:
        self._counter.forget(self._body)
        for value, dims, dtype in zip(self._body.inputs[2:], self.at(iteration), self._types, strict=False):
            self._counter.bind(value, dims, dtype)
        return self._counter.graph(self._body, inside)


def _difference(first: Dims | None, then: Dims | None) -> Dims | None:
    if first is None or then is None or len(first) != len(then):
        return None
    return tuple(b - a for a, b in zip(first, then, strict=True))


def _weights(at: Sequence[int], n: int) -> Floats:
    """Return weights for the sampled iterations with which the mean of any cubic over ``n`` iterations is exact."""
    # Sums of i^k over all iterations, for k from 0 to 3. Weights that give each power's mean give any cubic's mean.
    sums = (n, n * (n - 1) / 2, n * (n - 1) * (2 * n - 1) / 6, (n * (n - 1) / 2) ** 2)
    scale = max(1, at[-1])
    powers = np.vander([i / scale for i in at], len(at), increasing=True).T
    return np.linalg.solve(powers, np.array([sums[k] / scale**k / n for k in range(len(at))]))


def _mean(nodes: Sequence[NodeCost], weights: Floats) -> NodeCost:
    """Return a node's mean cost over sampled iterations, weighted by ``weights`` and by executions per iteration."""
    first = nodes[0]
    often = weights * [node.times for node in nodes]
    times = float(often.sum())
    if times <= 0 or not all(node.known for node in nodes):
        return next((node for node in nodes if not node.known), first)
    values = {
        name: round(float(np.dot(often, [getattr(node, name) for node in nodes])) / times)
        for name in _FIGURES
        if getattr(first, name) is not None
    }
    return msgspec.structs.replace(first, times=round(times), **values)
