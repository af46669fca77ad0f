"""Diagnoses of a single side: the node that ONNX Runtime's optimiser breaks, or that makes wrong values or NaN.

Every measuring verb has the arguments: the side, one of its feeds, and an executor. The functions for wrong values run
the model several times with all values as outputs, so call them only after outputs were found wrong. Verbs import these
functions; modules in ``trials`` receive them as arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ortune.catalogue.levels import level_of
from ortune.engines.bisection.clipping import MUCH, find_clipped, represented_range
from ortune.engines.bisection.find import OFF, BisectedSide, find
from ortune.engines.bisection.not_finite import first_of
from ortune.engines.bisection.observing import ValueObserver
from ortune.errors import Interrupted, OrtuneError
from ortune.graph.failing_nodes import NamedNode, sources_by_name
from ortune.graph.mapping import originals
from ortune.graph.model.open import OpenModel
from ortune.graph.nodes import with_operator
from ortune.inputs import feed_files
from ortune.measuring.executor import Executor
from ortune.measuring.sides import ResolvedSide
from ortune.records import ClippedActivation, FeedRef, GraphNode, NotFinite, Plan, messages


def first_decisive(
    side: ResolvedSide,
    feed: FeedRef,
    executor: Executor,
    folder: Path,
    *,
    custom_ops: tuple[str, ...] = (),
    seed: int = 0,
    line: Callable[[messages.Message], None] = lambda text: None,
) -> GraphNode | None:
    """Return the node at which values at the plan's optimisation level diverge from values at level none.

    Args:
        side: The model with its plan and its runtime.
        feed: Inputs for which its outputs are wrong.
        executor: Executor of the runs.
        folder: New folder for models and samples; it may be deleted afterwards.
        custom_ops: Libraries with operators of the model.
        seed: Seed of the input perturbations.
        line: Callback for progress messages.

    Returns:
        The node; None if no value diverges beyond rounding, or the values cannot be observed.
    """
    if level_of(side.plan) == OFF or side.plan.is_web:
        return None
    try:
        on = BisectedSide(name="B", resolved=side, model=side.opened(), feed=feed)
        off = replace(on, name="A").as_file()
        folder.mkdir(parents=True)
        optimised = on.as_optimised(folder, custom_ops, executor.limits)
        values = find(off, optimised, _joined(on.model), executor, folder / "values", seed, line)
    except Interrupted:
        raise
    except OrtuneError:  # the answer is of what runs, whether it can be looked into or not
        return None
    parting = next(iter(values.partings), None)
    return parting.at if parting is not None else None


def first_not_finite(
    side: ResolvedSide,
    feed: FeedRef,
    executor: Executor,
    folder: Path,
    *,
    line: Callable[[messages.Message], None] = lambda text: None,
) -> NotFinite | None:
    """Return the node that causes NaN or infinities at level none, with the weight that they come from.

    Args:
        side: The model with its plan and its runtime.
        feed: Inputs for which an output is not finite.
        executor: Executor of the runs.
        folder: New folder for models and samples; it may be deleted afterwards.
        line: Callback for progress messages.

    Returns:
        The node and its weight; None if every value is finite, or the values cannot be observed.
    """
    try:
        running = BisectedSide(name="A", resolved=side, model=side.opened(), feed=feed).as_file()
        folder.mkdir(parents=True)
        values = ValueObserver(executor, folder / "values", line).observe(running, side.label)
    except Interrupted:
        raise
    except OrtuneError:  # the answer is of what runs, whether it can be looked into or not
        return None
    return first_of(running, values, "A")


def clipped_activations(
    side: ResolvedSide,
    feed: FeedRef,
    executor: Executor,
    folder: Path,
    *,
    line: Callable[[messages.Message], None] = lambda text: None,
) -> tuple[ClippedActivation, ...]:
    """Return the activations of a quantized model that reach far beyond the range of their quantization.

    Args:
        side: The model with its plan and its runtime.
        feed: The inputs.
        executor: Executor of the runs, all at optimisation level none.
        folder: New folder for models and samples; it may be deleted afterwards.
        line: Callback for progress messages.

    Returns:
        The activation with the largest loss first; () if there is none, or the values cannot be observed.
    """
    quantizing = [node for node in with_operator(side.model.ir, "QuantizeLinear") if represented_range(node)]
    wanted = {str(node.inputs[0].name) for node in quantizing if node.inputs[0] is not None}
    if not wanted:
        return ()
    try:
        running = BisectedSide(name="A", resolved=side, model=side.opened(), feed=feed).as_file()
        folder.mkdir(parents=True)
        values = ValueObserver(executor, folder / "values", line).observe(running, side.label, wanted)
    except Interrupted:
        raise
    except OrtuneError:  # the answer is of what runs, whether it can be looked into or not
        return ()
    found = find_clipped(quantizing, "A", values, feed_files.read_feeds(Path(feed.path)), MUCH)
    unique = {activation.name: activation for activation in found}
    return tuple(sorted(unique.values(), key=lambda activation: -activation.share))


def made_from(
    side: ResolvedSide,
    plan: Plan,
    node: NamedNode,
    executor: Executor,
    folder: Path,
    *,
    custom_ops: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """Return the names of the model's nodes that became a node of the optimised graph.

    Args:
        side: The model with its runtime.
        plan: Plan with the optimisation level that creates the node.
        node: The node named by an error.
        executor: Executor with the limits of a process.
        folder: New folder for the optimised model; it may be deleted afterwards.
        custom_ops: Libraries with operators of the model.

    Returns:
        The names of nodes in the model. If the optimised graph cannot be saved, they are derived from the node's name.
    """
    model = side.opened()
    try:
        folder.mkdir(parents=True)
        running = BisectedSide(
            name="A", resolved=replace(side, plan=plan), model=model, feed=FeedRef(name="", path="")
        ).as_optimised(folder, custom_ops, executor.limits)
        made = originals(model.ir, running.graph).originals.get(node.name, ())
    except Interrupted:
        raise
    except OrtuneError:  # it may fail to load there: that is what is asked about
        made = ()
    return made or sources_by_name(model.ir, node)


def _joined(model: OpenModel) -> dict[str, str]:
    graph = model.ir.graph
    return {str(value.name): str(value.name) for value in (*graph.inputs, *graph.outputs)}
