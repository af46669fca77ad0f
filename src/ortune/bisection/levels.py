"""What a verb asks of one side alone: from which node on ONNX Runtime's optimiser, or a NaN, makes it wrong.

Both functions are given what every measuring verb holds: the side, one of its feeds, and an executor. Each runs the
model several times with all of its values as outputs, so they are for what was seen to be wrong, not for asking whether
it is. A verb imports them; what is in ``trials`` is given them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from ortune.bisection.find import OFF, Side, find
from ortune.bisection.looked_at import Eyes
from ortune.bisection.not_finite import first_of
from ortune.errors import MeasurementError
from ortune.knobs.cpu.graph_optimization_level import KNOB as LEVEL
from ortune.model.open import OpenModel, open_model
from ortune.records import FeedRef, GraphNode, NotFinite, Parting
from ortune.targets.tool import ToolFailed
from ortune.trials.executor import Executor
from ortune.trials.sides import Resolved


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongFrom:
    """The node from which on a level computes a model wrong.

    Attributes:
        node: Of the model itself, as its file names it.
        level: The level that is wrong.
        parting: Everything that is known of it: A is the model with the optimiser off, B what that level makes of it.
    """

    node: GraphNode
    level: str
    parting: Parting


def first_decisive(
    side: Resolved,
    feed: FeedRef,
    executor: Executor,
    folder: Path,
    *,
    level: str = "",
    custom_ops: tuple[str, ...] = (),
    seed: int = 0,
    line: Callable[[str], None] = lambda text: None,
) -> WrongFrom | None:
    """The first node from which on another level parts from level none for good.

    Args:
        side: The model with its plan and its runtime.
        feed: Inputs for which its outputs are wrong.
        executor: Whose processes run it.
        folder: To be made for models and samples; it may go afterwards.
        level: Compared with none; "" for that of the side's plan, which is the default where it names none.
        custom_ops: Libraries with operators of the model.
        seed: Of the directions in which inputs are moved.
        line: Is told how far it is.

    Returns:
        None where no value parts beyond rounding, and where the values cannot be looked at.
    """
    level = level or str(side.plan.settings.get(LEVEL.name, LEVEL.default))
    plan = msgspec.structs.replace(side.plan, settings={**side.plan.settings, LEVEL.name: level})
    if level == OFF or plan.is_web:
        return None
    off = Side(name="A", resolved=side, model=_model(side), feed=feed)
    on = Side(name="B", resolved=replace(side, plan=plan), model=off.model, feed=feed)
    try:
        folder.mkdir(parents=True)
        made = on.as_optimised(folder, custom_ops, executor.limits)
        values = find(off.as_file(), made, _joined(off.model), executor, folder / "values", seed, line)
    except (ToolFailed, MeasurementError):
        return None
    parting = next(iter(values.partings), None)
    if parting is None or parting.at is None:
        return None
    return WrongFrom(node=parting.at, level=level, parting=parting)


def first_not_finite(
    side: Resolved,
    feed: FeedRef,
    executor: Executor,
    folder: Path,
    *,
    line: Callable[[str], None] = lambda text: None,
) -> NotFinite | None:
    """The node of the model, at level none, from which its NaN or infinities come, and the weight that they are from.

    Args:
        side: The model with its plan and its runtime.
        feed: Inputs for which an output is not finite.
        executor: Whose processes run it.
        folder: To be made for models and samples; it may go afterwards.
        line: Is told how far it is.

    Returns:
        None where every value is finite, and where the values cannot be looked at.
    """
    running = Side(name="A", resolved=side, model=_model(side), feed=feed).as_file()
    try:
        folder.mkdir(parents=True)
        seen = Eyes(executor, folder / "values", line).look(running, side.label)
    except MeasurementError:
        return None
    return first_of(running, seen, "A")


def _model(side: Resolved) -> OpenModel:
    return side.model if side.runs == side.model.path else open_model(side.runs)


def _joined(model: OpenModel) -> dict[str, str]:
    graph = model.ir.graph
    return {str(value.name): str(value.name) for value in (*graph.inputs, *graph.outputs)}
