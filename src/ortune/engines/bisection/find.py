"""Locates where the values of two sides diverge, given that their outputs differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ortune.catalogue.levels import at_level, level_of
from ortune.catalogue.named import GRAPH_OPTIMIZATION_LEVEL as LEVEL
from ortune.engines.bisection.differences import compare_pairs
from ortune.engines.bisection.matching import match
from ortune.engines.bisection.not_finite import first_of
from ortune.engines.bisection.observing import ObservedGraph, ValueObserver, nudged
from ortune.engines.bisection.partings import decisive_first, first_off_grid, partings
from ortune.graph.mapping import originals
from ortune.graph.model.open import OpenModel, open_model
from ortune.measuring.executor import Executor
from ortune.measuring.sides import ResolvedSide
from ortune.records import FeedRef, GridDifference, NotFinite, Parting, Plan, Runtime, ValuePair, messages
from ortune.targets.task import Limits
from ortune.targets.tool import ToolProcess

OFF = "disable"


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectedSide:
    """A side with the feed that shows the largest output difference."""

    name: Literal["A", "B"]
    resolved: ResolvedSide
    model: OpenModel
    feed: FeedRef

    @property
    def runtime(self) -> Runtime:
        """ONNX Runtime build that runs the side's plan."""
        return self.resolved.runtime_of(self.resolved.plan)

    @property
    def plan_off(self) -> Plan:
        """The side's plan with ONNX Runtime's optimiser off."""
        return at_level(self.resolved.plan, OFF)

    @property
    def optimised(self) -> bool:
        """Whether its plan enables ONNX Runtime's optimiser."""
        return level_of(self.resolved.plan) != OFF

    def as_file(self) -> ObservedGraph:
        """Return the graph as stored in its file, ready to run."""
        return ObservedGraph(graph=self.model.ir, plan=self.plan_off, runtime=self.runtime, feed=self.feed)

    def as_optimised(self, scratch: Path, custom_ops: tuple[str, ...], limits: Limits) -> ObservedGraph:
        """Return the graph that ONNX Runtime optimised, ready to run.

        Raises:
            ToolFailed: The graph cannot be saved, for example because a provider compiled parts of it.
        """
        if not self.optimised:
            return self.as_file()
        # The tool saves each level separately, so the level is not a setting of its session.
        settings = {k: v for k, v in self.resolved.plan.settings.items() if k != LEVEL.name}
        tool = ToolProcess(
            runtime=self.runtime,
            folder=scratch,
            plan=Plan(settings=settings, providers=self.resolved.plan.providers),
            custom_ops=custom_ops,
            limits=limits,
        )
        path = scratch / f"optimised-{self.name}.onnx"
        tool("optimize", self.resolved.runs, path, {"level": level_of(self.resolved.plan)})
        optimised = open_model(path)
        return ObservedGraph(
            graph=optimised.ir,
            plan=self.plan_off,
            runtime=self.runtime,
            feed=self.feed,
            names=originals(self.model.ir, optimised.ir).originals,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectionFindings:
    """Places where the values of two sides diverge, and the evidence for them.

    Attributes:
        partings: Places of divergence, with the decisive place first.
        first: The first place in the order of A's nodes, unless it is the decisive place.
        stepped: The largest difference in grid steps between values on one grid; None if there is none.
        values: The comparison of every pair, in the order of A's nodes.
        n_values_a, n_values_b: Number of observed values of each side.
        bodies: Whether some nodes contain subgraphs.
    """

    partings: tuple[Parting, ...]
    first: Parting | None
    stepped: GridDifference | None
    not_finite: tuple[NotFinite, ...]
    values: tuple[ValuePair, ...]
    n_values_a: int
    n_values_b: int
    bodies: bool


def find(
    a: ObservedGraph,
    b: ObservedGraph,
    joined: Mapping[str, str],
    executor: Executor,
    folder: Path,
    seed: int,
    line: Callable[[messages.Message], None],
    *,
    differ: bool = True,
) -> BisectionFindings:
    """Compare every value of two graphs and find where they diverge.

    Args:
        a: The base with its feed.
        b: The side compared with it.
        joined: Maps each input and output name of A to the corresponding name of B.
        executor: Executor of the runs.
        folder: New folder for models and samples.
        seed: Seed of the input perturbations.
        line: Callback for progress messages.
        differ: Whether outputs differ by more than rounding, so that every differing integer in an output counts.
    """
    eyes = ValueObserver(executor, folder, line)
    seen_a, seen_b = eyes.observe(a, "A"), eyes.observe(b, "B")
    moved = eyes.observe(nudged(a, folder / "moved", seed), "A", moved=True)
    line(messages.Remark(code="comparing-values"))
    exact = [str(value.name) for value in a.graph.graph.outputs] if differ else []
    compared = compare_pairs(a, b, match(a, b, seen_a, seen_b, joined), seen_a, seen_b, moved, exact)
    places, earliest = decisive_first(partings(a, b, compared, seen_a, seen_b))
    first = [first_of(a, seen_a, "A"), first_of(b, seen_b, "B")]
    return BisectionFindings(
        partings=places,
        first=earliest,
        stepped=first_off_grid(a, b, compared),
        not_finite=tuple(item for item in first if item is not None),
        values=tuple(compared.values.values()),
        n_values_a=len(seen_a),
        n_values_b=len(seen_b),
        bodies=a.bodies or b.bodies,
    )
