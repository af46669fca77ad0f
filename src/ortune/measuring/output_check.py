"""Checks the outputs of a base and of other trials against the level that is known to be right."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from ortune import rewrites
from ortune.durations import in_words
from ortune.graph import outputs
from ortune.measuring import activations, precise_runs
from ortune.measuring.executor import Arm
from ortune.measuring.levels import Levels
from ortune.measuring.measuring import Measuring
from ortune.outputs import rounding
from ortune.outputs.tolerance import Tolerance
from ortune.records import LevelCheck, Measured, OutputDifference, RewriteSpec
from ortune.search.blocks import BASE
from ortune.search.phases import LEVEL_TIMES

_NOT_ASKED = "outputs with and without graph optimisation were not compared"


def check_level(measuring: Measuring, left_ns: float = math.inf) -> None:
    """Check whether the outputs are numbers and those of the model without optimisation; a page is not checked so.

    Args:
        measuring: Its ``check`` gets ``nonfinite`` and ``level_check``.
        left_ns: The time left: a run without optimisation that does not fit is left out, with a note.
    """
    side, check, executor = measuring.side, measuring.check, measuring.executor
    if side.plan.is_web:
        return
    folder = own_outputs(measuring)
    check.nonfinite = measuring.comparer.not_finite(folder, measuring.refs)
    if not side.levels:
        return
    last = executor.last
    needed_ns = LEVEL_TIMES * last.elapsed_ns if last is not None else 0.0
    check.level_asked = True
    host, store = measuring.host, measuring.log.folder
    check.level_check = check.levels.known(host, store)
    if check.level_check is None and needed_ns > left_ns:
        measuring.note(f"{_NOT_ASKED} (about {in_words(needed_ns / 1e9)} more)")
    elif check.level_check is None:
        check.level_check = check.levels.check(folder, host, store)
    if check.level_check is not None:
        void_note(measuring)


def void_note(measuring: Measuring) -> None:
    """Remove the note that levels were not compared: it is known by now which level is right."""
    measuring.notes = [note for note in measuring.notes if not note.startswith(_NOT_ASKED)]


def wrong_at(measuring: Measuring, level: str, left_ns: float = math.inf) -> bool:
    """Return whether the model's outputs are known to be wrong at another level of optimisation than the side's.

    Args:
        measuring: Its processes run the model.
        level: The level.
        left_ns: The time left; if it is too short for a run, only what an earlier session saw is known.
    """
    side, executor, host, store = measuring.side, measuring.executor, measuring.host, measuring.log.folder
    last = executor.last
    if side.plan.is_web or level == measuring.check.levels.own:
        return False
    side = replace(side, plan=measuring.check.levels.plan(level))
    levels = Levels(side, measuring.refs, executor, measuring.work, measuring.scratch / f"level-{level}")
    check = levels.known(host, store)
    # Two runs: at that level, and without optimisation.
    if check is None and last is not None and 2 * LEVEL_TIMES * last.elapsed_ns <= left_ns:
        check = levels.check(None, host, store)
    return check is not None and check.wrong


def checked_level(measuring: Measuring) -> LevelCheck | None:
    """Return the comparison with the model without optimisation, made now if it was not; None if there is none."""
    if not measuring.check.level_asked:
        check_level(measuring)
    return measuring.check.level_check


def step_down(measuring: Measuring) -> None:
    """Go on at the highest level whose outputs are right, if those of the side's own are not.

    Args:
        measuring: Its side gets another plan, and its ``check`` the outputs of that.
    """
    known = measuring.check
    check = known.level_check
    if check is None or not check.wrong or not check.right:
        return
    known.wrong_plan = known.wrong_plan or measuring.side.plan
    plan = known.levels.plan(check.right, check.right_settings)
    there = known.levels.outputs(check.right, check.right_settings)
    measuring.side = replace(measuring.side, plan=plan)
    folder = measuring.scratch / "lower-levels"
    known.levels = Levels(measuring.side, measuring.refs, measuring.executor, measuring.work, folder)
    known.level_check, known.folder = None, there or Path("-")
    known.nonfinite = measuring.comparer.not_finite(own_outputs(measuring), measuring.refs)


def own_outputs(measuring: Measuring) -> Path:
    """Return the folder of the outputs of the side as it runs; made again if a resumed session lacks it."""
    known = measuring.check
    if not known.folder.is_dir():
        base = measuring.arm(BASE)
        outcome = measuring.executor.trial(base, runs=0, keep_outputs=True, fresh=True)
        known.folder = Path(measuring.require_measured(base, outcome).outputs_path)
    return known.folder


def notice_randomness(measuring: Measuring, again: Measured) -> None:
    """Compare outputs by moments from now on if the base, run again, differs from itself.

    Args:
        measuring: Its pilot has a first trial.
        again: Another trial of the base.
    """
    # Held against its own, right or wrong: that these differ from what is right is no randomness.
    found = difference(
        measuring, again, "itself", by_values=True, reference=lambda: _first_outputs(measuring)
    )
    if not (found.ok or found.empty) and (found.max_error or not found.nonfinite_reference):
        measuring.comparer.moments = True
        ops = sorted({op for _, op in outputs.random_ops(measuring.side.model.ir)})
        cause = f" ({', '.join(ops)})" if ops else ""
        measuring.note(
            f"outputs vary from run to run{cause}, so only shape, "
            "finiteness, mean and standard deviation are compared"
        )


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
    """Return the difference between the outputs of a trial and the reference; the worst of all cases.

    Args:
        measuring: Its base has outputs.
        trial: A trial that kept its outputs.
        key: With a key the answer is journalled, and taken from the journal of a session that goes on.
        again: Run once more, untimed, where the trial's outputs went with an interrupted session.
        tolerance: In place of the session's.
        rewritten: How its model was rewritten: outputs left out on request are passed over, which is noted.
        by_values: Whether to use the usual limits if a budget was requested: the base itself may miss a metric.
        reference: Returns the outputs to compare with, if not those that are held to be right; called only where
            nothing is journalled.
    """
    known, comparer, asked = measuring.check, measuring.comparer, measuring.options.tolerance
    without = left_out(measuring, rewritten)
    # A session that goes on has no outputs of its first half any more: its journal decides.
    if key and key in known.known_differences:
        return known.known_differences[key]
    trial = measuring.with_outputs(again or measuring.arm(BASE), trial)
    tolerance = asked if tolerance is None else tolerance
    if by_values and tolerance is not None and tolerance.number is None:
        tolerance = None
    folder = reference() if reference is not None else right_outputs(measuring)
    found = comparer.compared(folder, Path(trial.outputs_path), measuring.refs, tolerance, without)
    # The model's own rounding decides two cases: outputs that pass by so little that they are doubted,
    # and those that fail but that some tolerance would accept. It costs two more runs, so the clear cases
    # go without.
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
    """Name the cause of a difference, if it is that a side rounds activations to int8."""
    sides = precise_runs.outputs(measuring, arm, Path(trial.outputs_path), reference)
    if sides is None:
        return difference
    left = measuring.comparer.compared(*sides, measuring.refs, None, without)
    return activations.explained(difference, left)


def _by_own_rounding(measuring: Measuring, difference: OutputDifference) -> OutputDifference:
    """Return the verdict where the model's own rounding decides it: more than usual, or far less."""
    own = _own_rounding(measuring)
    if difference.ok:
        return rounding.tightened(difference, own)
    better = rounding.forgiven(difference, own)
    note = (
        "outputs are sensitive to rounding: without graph optimisation, or with inputs one rounding step away, "
        f"they change by {own.moves:.2g} (relative L2); differences up to {own.accepted:.2g} are accepted"
    )
    if better.ok and note not in measuring.notes:
        measuring.note(note)
    return better


def _own_rounding(measuring: Measuring) -> rounding.Own:
    """Return the differences that rounding alone makes, and the optimiser if it does no more than that."""
    known = measuring.check
    if known.own_rounding is None:
        check, moved = checked_level(measuring), known.levels.moved()
        right = check.outputs if check is not None and not check.wrong else None
        known.own_rounding = rounding.Own(moved=moved, optimised=right)
    return known.own_rounding


def right_outputs(measuring: Measuring) -> Path:
    """Return the folder of the outputs that others are compared with: the base's own, if these are right."""
    level = measuring.check.levels.reference() if measuring.check.wrong else None
    return level[1] if level is not None else _first_outputs(measuring)


def _first_outputs(measuring: Measuring) -> Path:
    """Return the folder of the outputs of the first timed trial; made again if a resumed session lacks it."""
    first = measuring.pilot.first = measuring.with_outputs(measuring.arm(BASE), measuring.pilot.first)
    return Path(first.outputs_path)


def left_out(measuring: Measuring, rewritten: Sequence[RewriteSpec]) -> frozenset[str]:
    """Return the model's outputs that these rewrites leave out on request; a note says so."""
    names = [str(value.name) for value in measuring.side.model.ir.graph.outputs]
    gone = rewrites.left_out(rewritten, names)
    note = f"excluded on request, so not compared: {', '.join(n for n in names if n in gone)}"
    if gone and note not in measuring.notes:
        measuring.notes.append(note)
    return gone
