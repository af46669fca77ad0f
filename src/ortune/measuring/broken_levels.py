"""A first run that failed: whether the model, its inputs, or ONNX Runtime's optimiser is the reason."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import msgspec

from ortune.knobs.cpu.graph_optimization_level import KNOB as LEVEL
from ortune.measuring.executor import Arm, Executor
from ortune.records import BrokenLevel, Failed, Measured, Outcome, Plan

LOWEST = LEVEL.choices[0]
_REASONS = ("load-error", "unsupported", "run-error", "input-error", "crash")
_BEFORE_LOADING = ("starting", "importing", "preparing")
_OF_THE_FILE_OR_FEED = re.compile(
    r"Got invalid dimensions for input|Invalid rank for input|Unexpected input data type|INVALID_PROTOBUF|"
    r"Unsupported model IR version|is under development|not a registered function|EPFail"
)
"""Errors that come before any optimiser ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """A trial that failed at the level of its plan, with what runs below.

    Attributes:
        level: What fails, and the highest level that runs.
        asked: The plan of the trial that failed.
        plan: The plan at the highest level that runs.
        trial: A run of it.
        at: The plan at the lowest level that fails.
    """

    level: BrokenLevel
    asked: Plan
    plan: Plan
    trial: Measured
    at: Plan


def level_of(plan: Plan) -> str:
    """Return the optimisation level of a plan."""
    return str(plan.settings.get(LEVEL.name, LEVEL.default))


def at_level(plan: Plan, level: str) -> Plan:
    """Return a plan with another optimisation level."""
    return msgspec.structs.replace(plan, settings={**plan.settings, LEVEL.name: level})


def unoptimised(
    executor: Executor, arm: Arm, failed: Outcome, *, keep_outputs: bool = False
) -> Outcome | None:
    """Run an arm that failed once more without graph optimisation.

    Args:
        executor: Runs it.
        arm: The arm that failed.
        failed: Its outcome.
        keep_outputs: Whether the outputs of the run are kept.

    Returns:
        The outcome, or None if optimisation cannot be the reason: the arm has none, no level applies where it runs, or
        the error comes before any optimisation.
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


def lower(
    executor: Executor, arm: Arm, failed: Failed, plain: Measured, *, keep_outputs: bool = False
) -> Lowered:
    """Find the lowest level at which an arm fails, and the highest below it.

    Args:
        executor: Runs the levels between.
        arm: The arm that failed.
        failed: Its outcome at the level of its plan.
        plain: A run of it without optimisation.
        keep_outputs: Whether the outputs of the run that is returned are kept.
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
    return Lowered(
        level=BrokenLevel(level=own, right=right, what=failed.what),
        asked=arm.plan,
        plan=at_level(arm.plan, right),
        trial=trial,
        at=at_level(arm.plan, own),
    )


def _run(executor: Executor, arm: Arm, level: str, *, keep_outputs: bool) -> Outcome:
    lowered = replace(arm, name=f"level-{level}", plan=at_level(arm.plan, level))
    return executor.trial(lowered, runs=0, keep_outputs=keep_outputs)
