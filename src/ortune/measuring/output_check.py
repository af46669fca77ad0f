"""Checks the outputs of a base and of other trials against a level that is known to be right."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from ortune import rewrites
from ortune.graph import outputs
from ortune.measuring import activations, precise_runs
from ortune.measuring.executor import Arm
from ortune.measuring.measuring import Measuring
from ortune.outputs import rounding
from ortune.outputs.tolerance import Tolerance
from ortune.records import LevelCheck, Measured, OutputDifference, RewriteSpec, messages
from ortune.search.blocks import BASE
from ortune.search.phases import LEVEL_TIMES


def check_level(measuring: Measuring, left_ns: float = math.inf) -> None:
    """Check whether outputs are finite, and equal to the outputs without optimisation; does nothing for a page.

    Args:
        measuring: The measurement; ``check.nonfinite`` and ``check.level_check`` are set.
        left_ns: Time left; the run without optimisation is skipped with a note if it does not fit.
    """
    side, check, executor = measuring.side, measuring.check, measuring.executor
    if side.plan.is_web:
        return
    folder = own_outputs(measuring)
    check.nonfinite = measuring.comparer.not_finite(folder, measuring.refs)
    if not side.has_levels:
        return
    last = executor.last
    needed_ns = LEVEL_TIMES * last.elapsed_ns if last is not None else 0.0
    check.level_asked = True
    check.level_check = check.levels.known()
    if check.level_check is None and needed_ns > left_ns:
        measuring.note(messages.LevelsNotCompared(needed_s=needed_ns / 1e9))
    elif check.level_check is None:
        check.level_check = check.levels.check(folder)
    if check.level_check is not None:
        remove_level_note(measuring)


def remove_level_note(measuring: Measuring) -> None:
    """Remove the note that levels were not compared, once the right level is known."""
    measuring.notes = [n for n in measuring.notes if not isinstance(n, messages.LevelsNotCompared)]


def wrong_at(measuring: Measuring, level: str, left_ns: float = math.inf) -> bool:
    """Return whether the model's outputs are known to be wrong at an optimisation level other than the side's.

    Args:
        measuring: The measurement, whose processes run the model.
        level: The level.
        left_ns: Time left; if it does not suffice for a run, only a stored check is used.
    """
    side, last = measuring.side, measuring.executor.last
    if side.plan.is_web or level == measuring.check.levels.own:
        return False
    side = replace(side, plan=measuring.check.levels.plan(level))
    levels = measuring.outputs_by_level(side, measuring.refs, f"level-{level}")
    check = levels.known()
    # Two runs: at that level, and without optimisation.
    if check is None and last is not None and 2 * LEVEL_TIMES * last.elapsed_ns <= left_ns:
        check = levels.check(None)
    return check is not None and check.wrong


def checked_level(measuring: Measuring) -> LevelCheck | None:
    """Return the comparison with the model without optimisation, which is made now if necessary; None if impossible."""
    if not measuring.check.level_asked:
        check_level(measuring)
    return measuring.check.level_check


def step_down(measuring: Measuring) -> None:
    """Switch to the highest level with right outputs, if the side's outputs are wrong.

    Args:
        measuring: The measurement; the side's plan and the outputs in ``check`` are replaced.
    """
    known = measuring.check
    check = known.level_check
    if check is None or not check.wrong or not check.right:
        return
    known.wrong_plan = known.wrong_plan or measuring.side.plan
    plan = known.levels.plan(check.right, check.right_settings)
    there = known.levels.outputs(check.right, check.right_settings)
    measuring.side = replace(measuring.side, plan=plan)
    known.levels = measuring.outputs_by_level(measuring.side, measuring.refs, "lower-levels")
    known.level_check, known.folder = None, there or Path("-")
    known.nonfinite = measuring.comparer.not_finite(own_outputs(measuring), measuring.refs)


def own_outputs(measuring: Measuring) -> Path:
    """Return the folder of the side's outputs; run the side again if a resumed session lacks them."""
    known = measuring.check
    if not known.folder.is_dir():
        base = measuring.arm(BASE)
        outcome = measuring.executor.untimed(base)
        known.folder = Path(measuring.require_measured(base, outcome).outputs_path)
    return known.folder


def notice_randomness(measuring: Measuring, again: Measured) -> None:
    """Switch to comparing outputs by moments if two trials of the base differ.

    Args:
        measuring: The measurement, whose pilot has a first trial.
        again: Another trial of the base.
    """
    # Compared with the base's own outputs, even if wrong: deviation from the right ones is no randomness.
    found = difference(
        measuring, again, "itself", by_values=True, reference=lambda: _first_outputs(measuring)
    )
    if not (found.ok or found.empty) and (found.max_error or not found.nonfinite_reference):
        measuring.comparer.moments = True
        operators = sorted({op for _, op in outputs.random_ops(measuring.side.model.ir)})
        measuring.note(messages.VaryingOutputs(operators=tuple(operators)))


def difference(
    measuring: Measuring,
    trial: Measured,
    key: str = "",
    again: Arm | None = None,
    tolerance: Tolerance | None = None,
    rewritten: Sequence[RewriteSpec] = (),
    *,
    by_values: bool = False,
    reference: Callable[[], Path] | None = None,
) -> OutputDifference:
    """Return the difference between the outputs of a trial and the reference, the largest over all cases.

    Args:
        measuring: The measurement, whose base has outputs.
        trial: A trial that kept its outputs.
        key: Key of the journal entry with the result, which a resumed session reads; "" to journal nothing.
        again: Arm to run once more, untimed, if an interrupted session lost the trial's outputs; None for the base.
        tolerance: Tolerance to use instead of the session's.
        rewritten: Rewrites of the trial's model; outputs that they remove on request are skipped with a note.
        by_values: Whether to use the default limits even if a budget of rows or a metric was requested.
        reference: Returns the outputs to compare with, called if nothing is journalled; None for the right outputs.
    """
    known, comparer, asked = measuring.check, measuring.comparer, measuring.options.tolerance
    without = removed_outputs(measuring, rewritten)
    # A resumed session has no outputs of its first half, so the journal decides.
    if key and key in known.known_differences:
        return known.known_differences[key]
    trial = measuring.with_outputs(again or measuring.arm(BASE), trial)
    tolerance = asked if tolerance is None else tolerance
    if by_values and tolerance is not None and tolerance.number is None:
        tolerance = None
    folder = reference() if reference is not None else right_outputs(measuring)
    found = comparer.difference(folder, Path(trial.outputs_path), measuring.refs, tolerance, without)
    # The model's own rounding decides two cases: outputs that pass by so little that they are doubted, and those that
    # fail but that some tolerance would accept. It costs two more runs, so the clear cases go without.
    if not found.ok and tolerance is None and not comparer.moments:
        found = _by_activations(measuring, found, trial, again, folder, without)
    undecided = rounding.doubtful(found) or (not found.ok and found.accepting_tolerance is not None)
    if undecided and tolerance is None and not (comparer.moments or found.cause):
        found = _by_own_rounding(measuring, found)
    if known.refuted and reference is None:
        found = msgspec.structs.replace(found, reference_wrong=True)
    if key:
        measuring.log.add("difference", {"key": key, "difference": found})
    return found


def _by_activations(
    measuring: Measuring,
    difference: OutputDifference,
    trial: Measured,
    arm: Arm | None,
    reference: Path,
    without: Collection[str],
) -> OutputDifference:
    """Return a difference, accepted with its cause if activations were rounded to int8."""
    sides = precise_runs.outputs_in_float32(measuring, arm, Path(trial.outputs_path), reference)
    if sides is None:
        return difference
    own, other = sides
    left = measuring.comparer.difference(own.folder, other.folder, measuring.refs, None, without)
    return activations.accepted_as_rounding(difference, left, own.options + other.options)


def _by_own_rounding(measuring: Measuring, difference: OutputDifference) -> OutputDifference:
    """Return the difference, judged by the effect of rounding on this model instead of the default limits."""
    own = _own_rounding(measuring)
    if difference.ok:
        return rounding.tightened(difference, own)
    better = rounding.forgiven(difference, own)
    note = messages.SensitiveOutputs(moved_l2=own.moves, accepted_l2=own.accepted)
    if better.ok and note not in measuring.notes:
        measuring.note(note)
    return better


def _own_rounding(measuring: Measuring) -> rounding.OwnRounding:
    """Return the differences that rounding alone causes, and that the optimiser causes if its outputs are right."""
    known = measuring.check
    if known.own_rounding is None:
        check, moved = checked_level(measuring), known.levels.rounding_change()
        right = check.outputs if check is not None and not check.wrong else None
        known.own_rounding = rounding.OwnRounding(moved=moved, optimised=right)
    return known.own_rounding


def right_outputs(measuring: Measuring) -> Path:
    """Return the folder of the reference outputs: the base's, or those of a level with right outputs."""
    level = measuring.check.levels.reference() if measuring.check.wrong else None
    return level[1] if level is not None else _first_outputs(measuring)


def _first_outputs(measuring: Measuring) -> Path:
    """Return the folder of the first timed trial's outputs; run the trial again if a resumed session lacks them."""
    first = measuring.pilot.first = measuring.with_outputs(measuring.arm(BASE), measuring.pilot.first)
    return Path(first.outputs_path)


def from_own(
    measuring: Measuring, trial: Measured, tolerance: Tolerance | None, rewritten: Sequence[RewriteSpec]
) -> OutputDifference:
    """Return the difference between a trial's outputs and those of the side, right or wrong."""
    own, outputs = own_outputs(measuring), Path(trial.outputs_path)
    without = removed_outputs(measuring, rewritten)
    return measuring.comparer.difference(own, outputs, measuring.refs, tolerance, without)


def removed_outputs(measuring: Measuring, rewritten: Sequence[RewriteSpec]) -> frozenset[str]:
    """Return the outputs of the model that these rewrites remove on request, and add a note about them."""
    names = [str(value.name) for value in measuring.side.model.ir.graph.outputs]
    gone = rewrites.removed_outputs(rewritten, names)
    note = messages.ExcludedOutputs(names=tuple(n for n in names if n in gone))
    if gone and note not in measuring.notes:
        measuring.notes.append(note)
    return gone
