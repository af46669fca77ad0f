"""Determines whether the model, its inputs, or ONNX Runtime's optimiser makes a first run fail."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ortune.catalogue.levels import at_level, level_of
from ortune.catalogue.named import GRAPH_OPTIMIZATION_LEVEL as LEVEL
from ortune.errors import MeasurementError
from ortune.measuring.executor import Arm, Executor
from ortune.measuring.sides import ResolvedSide
from ortune.printable import operand
from ortune.records import BrokenLevel, Failed, Measured, Outcome, Plan

LOWEST = LEVEL.choices[0]
CODE = "broken-level"
_REASONS = ("load-error", "unsupported", "run-error", "input-error", "crash")
_BEFORE_LOADING = ("starting", "importing", "preparing")
_OF_THE_FILE_OR_FEED = re.compile(
    r"Got invalid dimensions for input|Invalid rank for input|Unexpected input data type|INVALID_PROTOBUF|"
    r"Unsupported model IR version|is under development|not a registered function|EPFail"
)
"""Errors that occur before any optimisation, because of the file or the feeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredArm:
    """A trial that failed at its plan's optimisation level, and the level at which it runs.

    Attributes:
        level: The lowest level that fails, and the highest level that runs.
        asked: The plan of the failed trial, at the requested level.
        plan: The plan at the highest level that runs.
        trial: A trial of ``plan``.
        at: The plan at the lowest level that fails.
    """

    level: BrokenLevel
    asked: Plan
    plan: Plan
    trial: Measured
    at: Plan


def run_unoptimised(
    executor: Executor, arm: Arm, failed: Outcome, *, keep_outputs: bool = False
) -> Outcome | None:
    """Run a failed arm once more without graph optimisation.

    Args:
        executor: Executor of the run.
        arm: The arm that failed.
        failed: Outcome of the arm.
        keep_outputs: Whether the outputs of the run are kept.

    Returns:
        The outcome; None if optimisation cannot be the cause, since the arm does not optimise, no level applies to its
        runtime, or the error precedes optimisation.
    """
    if (
        not isinstance(failed, Failed)
        or failed.reason not in _REASONS
        or failed.phase in _BEFORE_LOADING
        or arm.plan.is_web
        or arm.runtime.source is not None
        or level_of(arm.plan) == LOWEST
        or _OF_THE_FILE_OR_FEED.search(failed.what)
    ):
        return None
    return _run(executor, arm, LOWEST, keep_outputs=keep_outputs)


def find_broken_level(
    executor: Executor, arm: Arm, failed: Failed, plain: Measured, *, keep_outputs: bool = False
) -> LoweredArm:
    """Find the lowest level at which an arm fails, and the next lower level, at which it runs.

    Args:
        executor: Executor of the runs at the levels in between.
        arm: The arm that failed.
        failed: The outcome at the level of its plan.
        plain: A trial without optimisation.
        keep_outputs: Whether the outputs of the returned trial are kept.
    """
    own = level_of(arm.plan)
    right, trial = LOWEST, plain
    for level in LEVEL.choices[1 : LEVEL.choices.index(own)]:
        outcome = _run(executor, arm, level, keep_outputs=keep_outputs)
        if not isinstance(outcome, Measured):
            own, failed = level, outcome
            break
        right, trial = level, outcome
    executor.last = trial
    return LoweredArm(
        level=BrokenLevel(level=own, right=right, what=failed.what),
        asked=arm.plan,
        plan=at_level(arm.plan, right),
        trial=trial,
        at=at_level(arm.plan, own),
    )


def require_as_given(
    base: ResolvedSide,
    lowered: LoweredArm | None,
    side: ResolvedSide,
    side_lowered: LoweredArm | None,
    name: str,
    *,
    itself: bool = False,
) -> None:
    """Check that two sides can still be compared as requested after graph optimisation was reduced for one of them.

    Args:
        base: Side A, at the level at which it runs.
        lowered: The levels of A; None if A runs at the requested level.
        side: The other side, at the level at which it runs.
        side_lowered: The levels of that side; None if it runs at the requested level.
        name: The name of the other side.
        itself: Whether a model may be compared with itself.

    Raises:
        MeasurementError: The sides are now equal, or one does not run at a level that was requested for it alone.
    """
    kept = {"A": (base, lowered), name: (side, side_lowered)}
    broken = {letter: (one, levels) for letter, (one, levels) in kept.items() if levels is not None}
    asked = [levels.asked.id if levels else one.plan.id for one, levels in kept.values()]
    equal = (base.plan.id, base.model.ref.sha256, base.runtime) == (
        side.plan.id,
        side.model.ref.sha256,
        side.runtime,
    )
    if broken and equal and not (itself and asked[0] == asked[1]):
        right = level_of(base.plan)
        raise MeasurementError(
            f"{_fails(broken)} there. At level {right}, where it runs, A and {name} are equal",
            where=base.label,
            do=shlex.join(["ortune", "bench", operand(str(base.model.path)), "--set", f"level={right}"]),
            code=CODE,
        )
    for letter, (one, levels) in broken.items():
        if LEVEL.name in one.own_settings:
            option = f"--{letter.lower()}-set"
            raise MeasurementError(
                f"{_fails({letter: (one, levels)})} there",
                where=option,
                do=f"use {option} level={levels.level.right}, at which {letter} runs",
                code=CODE,
            )


def _fails(broken: Mapping[str, tuple[ResolvedSide, LoweredArm]]) -> str:
    """Return the part of an error that names the sides that do not run, their levels and the cause."""
    own = {letter: level_of(lowered.asked) for letter, (_, lowered) in broken.items()}
    levels = dict.fromkeys(own.values())
    if len(own) == 1:
        who = f"{next(iter(own))} does not run at level {next(iter(levels))}"
    elif len(levels) == 1:
        who = f"neither side runs at level {next(iter(levels))}"
    else:
        each = ", ".join(f"{letter}: {level}" for letter, level in own.items())
        who = f"neither side runs at its level ({each})"
    return f"{who}, because ONNX Runtime's optimiser breaks this model"


def _run(executor: Executor, arm: Arm, level: str, *, keep_outputs: bool) -> Outcome:
    lowered = replace(arm, name=f"level-{level}", plan=at_level(arm.plan, level))
    return executor.trial(lowered, runs=0, keep_outputs=keep_outputs)
