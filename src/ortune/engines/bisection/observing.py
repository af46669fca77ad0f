"""Reads every top-level value of a graph in several runs, each of which reads a part in its own process."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import onnx_ir as ir

from ortune.engines.bisection.value_statistics import ValueStatistics, sample_value
from ortune.errors import MeasurementError
from ortune.graph import cost
from ortune.graph.model.graphs import subgraphs
from ortune.graph.model.save import save_model
from ortune.graph.nodes import is_op, operator
from ortune.inputs import feed_files
from ortune.measuring import failures
from ortune.measuring.executor import Arm, Executor
from ortune.outputs import rounding
from ortune.outputs.files import read_outputs
from ortune.records import FeedRef, GraphNode, Measured, Plan, Runtime, messages

PART_BYTES = 256 << 20
"""Limit on the bytes of the values that one process reads, since it has all in memory, with a copy as NumPy arrays."""
UNKNOWN_BYTES = 16 << 20
MOST_AT_ONCE = 256
MOST_FAILURES = 40
"""Number of failed parts after which observing the graph fails; a part fails if a value in it cannot be an output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedGraph:
    """A graph prepared for observing its values.

    Attributes:
        graph: Nodes and weights; only copies are changed.
        plan: Plan with the optimiser off, since fused values cannot be observed.
        names: The user's nodes by node name, if the graph was made by ONNX Runtime.
    """

    graph: ir.Model
    plan: Plan
    runtime: Runtime
    feed: FeedRef
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def nodes(self) -> list[ir.Node]:
        """Nodes of the top level, in topological order."""
        return [node for node in self.graph.graph if not is_op(node, "Constant")]

    @property
    def bodies(self) -> bool:
        """Whether nodes contain subgraphs, which are not observed."""
        return any(any(True for _ in subgraphs(node)) for node in self.graph.graph)


def described(node: ir.Node, side: ObservedGraph) -> GraphNode:
    """Return the record of a node for documents."""
    return GraphNode(
        name=node.name or "",
        operator=operator(node),
        value=next((str(v.name) for v in node.outputs if v.name), ""),
        of=side.names.get(node.name or "", ()),
        bodies=any(True for _ in subgraphs(node)),
    )


class ValueObserver:
    """Runs graphs with their values as outputs and samples them.

    Args:
        executor: Executor of the runs.
        folder: Folder for models and samples; its contents may be deleted.
        line: Callback for progress messages.
    """

    def __init__(self, executor: Executor, folder: Path, line: Callable[[messages.Message], None]) -> None:
        self._executor, self._folder, self._line = executor, folder, line
        self._count = self._failures = 0
        folder.mkdir()

    def observe(
        self,
        running: ObservedGraph,
        side: str,
        wanted: Collection[str] | None = None,
        *,
        moved: bool = False,
    ) -> dict[str, ValueStatistics]:
        """Return a sample of every value that can be an output, or of the wanted ones, by name.

        Args:
            running: The graph with its feed.
            side: Name of the side, for progress messages.
            wanted: Names of the wanted values; None for all.
            moved: Whether its inputs are perturbed by one rounding step, for progress messages.
        """
        values: dict[str, ValueStatistics] = {}
        parts = _parts(running, wanted)
        for i, names in enumerate(parts, 1):
            self._line(messages.ObservingValues(side=side, moved=moved, part=i, n_parts=len(parts)))
            values |= self._part(running, names)
        return values

    def _part(self, running: ObservedGraph, names: Sequence[str]) -> dict[str, ValueStatistics]:
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        path = folder / "looked-at.onnx"
        save_model(_tapped(running.graph, names), path)
        arm = Arm(name="look", plan=running.plan, model=path, runtime=running.runtime, feeds=(running.feed,))
        outcome = self._executor.untimed(arm)
        for file in (path, folder / f"{path.name}.data"):
            file.unlink(missing_ok=True)
        if not isinstance(outcome, Measured):
            # A value that cannot be an output makes all values of its part unobservable.
            half = len(names) // 2
            self._failures += 1
            if self._failures > MOST_FAILURES:
                failures.raise_if_unrunnable(outcome, arm)
                raise MeasurementError(
                    f"the model does not run with its intermediate values as outputs: {failures.describe(outcome)}",
                    where=running.graph.graph.name or "",
                    do=failures.remedy(outcome),
                    code=outcome.reason,
                )
            if not half:
                return {}
            return self._part(running, names[:half]) | self._part(running, names[half:])
        left = read_outputs(Path(outcome.outputs_path) / running.feed.name)
        values = {
            name: data
            for i, (name, value) in enumerate(left.items())
            if (data := sample_value(value, folder / f"{i}.npy")) is not None
        }
        shutil.rmtree(outcome.outputs_path, ignore_errors=True)
        return values


def nudged(running: ObservedGraph, folder: Path, seed: int) -> ObservedGraph:
    """Return a copy with inputs and small weights moved by one rounding step, to estimate rounding errors."""
    graph = rounding.nudged(running.graph, seed) or running.graph
    return replace(running, graph=graph, feed=rounding.moved_feed(running.feed, folder, seed))


def _values(running: ObservedGraph, wanted: Collection[str] | None) -> list[tuple[ir.Node, list[str]]]:
    """Return each node with the names of its results to observe; with ``wanted``, only nodes with such results."""
    values = []
    for node in running.nodes:
        names = [str(v.name) for v in node.outputs if v.name and not _no_tensor(v)]
        kept = [name for name in names if wanted is None or name in wanted]
        if kept or wanted is None:
            values.append((node, kept))
    return values


def _no_tensor(value: ir.Value) -> bool:
    return value.type is not None and not isinstance(value.type, ir.TensorType)


def _parts(running: ObservedGraph, wanted: Collection[str] | None) -> list[list[str]]:
    """Return the names of the values to observe, in execution order, split into parts that fit in memory."""
    sizes = _sizes(running)
    parts: list[list[str]] = []
    room = 0
    for node, names in _values(running, wanted):
        size = sizes.get(node, UNKNOWN_BYTES)
        if not parts or size > room or len(parts[-1]) + len(names) > MOST_AT_ONCE:
            parts.append([])
            room = PART_BYTES
        parts[-1] += names
        room -= size
    return [part for part in parts if part]


def _sizes(running: ObservedGraph) -> dict[ir.Node, int]:
    """Return the bytes that each node with known shapes writes; {} if costs and nodes do not correspond."""
    feeds = feed_files.read_feeds(Path(running.feed.path))
    shapes = {name: value.shape for name, value in feeds.items() if isinstance(value, np.ndarray)}
    whole = {
        name: value
        for name, value in feeds.items()
        if isinstance(value, np.ndarray) and value.dtype.kind in "iub"
    }
    counted = [
        node_cost for node_cost in cost.costs(running.graph, shapes, whole).nodes if not node_cost.inside
    ]
    nodes = list(running.graph.graph)
    if len(counted) != len(nodes):  # functions were inlined
        return {}
    return {
        node: node_cost.bytes_written
        for node, node_cost in zip(nodes, counted, strict=True)
        if node_cost.known
    }


def _tapped(model: ir.Model, names: Sequence[str]) -> ir.Model:
    """Return a copy of the model with exactly these values as outputs."""
    copy = model.clone()
    wanted = set(names)
    values = [v for node in copy.graph for v in node.outputs if v.name in wanted]
    copy.graph.outputs.clear()
    copy.graph.outputs.extend(values)
    return copy
