"""Tests whether the outputs for one row depend on other rows of its batch, or on masked padding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx_ir as ir

from ortune.graph.grids import output_grids
from ortune.graph.outputs import output_comparisons, random_ops
from ortune.graph.rows import MixedRows, batch_axes, length_axes, mixed_rows
from ortune.inputs import feed_files
from ortune.inputs.feeds import make_feeds
from ortune.inputs.value_files import write_outputs
from ortune.measuring.executor import Arm
from ortune.measuring.measuring import Measuring
from ortune.outputs.comparison import compare_outputs
from ortune.outputs.files import Array, family, load_array, read_outputs
from ortune.records import (
    Case,
    FeedRef,
    Measured,
    OutputDifference,
    RowCheck,
    RowDifference,
    RowQuestion,
    Workload,
)
from ortune.search.blocks import BASE

LEAST_LENGTH = 4
"""Minimum length of a row that is halved to add padding."""
MOST_ROWS = 8
"""Maximum number of the batch's rows that accompany the first; thousands of rows would double the memory."""
TIMES = 3.0
"""Cost of the comparison as a multiple of the first run, for one start and a few rows of each kind."""
Feeds = Mapping[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """One row fed in two ways.

    Attributes:
        alone, among: The inputs of the row alone, and with other rows or padding.
        was, size: The number of rows, or the length, of ``alone`` and of ``among``.
    """

    by: RowQuestion
    alone: Feeds
    among: Feeds
    was: int
    size: int

    @property
    def names(self) -> tuple[str, str]:
        """The names of the two cases."""
        return f"{self.by}-alone", f"{self.by}-among"


def has_batch(model: ir.Model, work: Workload) -> bool:
    """Return whether the workload feeds several rows at once."""
    axes = batch_axes(model)
    return any(
        choice.name in axes and len(choice.shape) > axes[choice.name] and choice.shape[axes[choice.name]] > 1
        for case in work.cases
        for choice in case.inputs
    )


def needed_ns(measuring: Measuring) -> float:
    """Return the estimated time of the comparison in nanoseconds, from the last trial; 0 without a trial."""
    return TIMES * measuring.executor.last.elapsed_ns if measuring.executor.last is not None else 0.0


def check_base(measuring: Measuring, left_ns: float) -> RowCheck | None:
    """Call ``check_rows`` for the base, with its model's sensitivity to rounding."""
    is_rounding = measuring.check.levels.is_rounding
    return check_rows(measuring, measuring.arm(BASE), measuring.side.model.ir, is_rounding, left_ns)


def check_rows(
    measuring: Measuring,
    arm: Arm,
    model: ir.Model,
    rounding: Callable[[OutputDifference], bool],
    left_ns: float,
) -> RowCheck | None:
    """Run one row with and without other rows, and with and without padding, in a separate process.

    Args:
        measuring: The measurement, whose processes run the arm, with settled inputs.
        arm: The arm to run.
        model: The arm's model.
        rounding: Returns whether a difference is within rounding.
        left_ns: Time left of the budget; nothing is run if the comparison takes longer.

    Returns:
        The differences; None if there is no time, or nothing to check: no dynamic batch and no mask, or random numbers.
    """
    if arm.plan.is_web or random_ops(model) or needed_ns(measuring) > left_ns:
        return None
    feeds = _tensors(arm.feeds[0]) if arm.feeds else None
    if feeds is None or not measuring.work.cases:
        return None
    questions = [
        question
        for question in (
            _in_a_batch(model, measuring.work.cases[0], feeds, measuring.work.seed),
            _padded(model, feeds),
        )
        if question is not None
    ]
    folder = measuring.scratch / f"rows-{arm.name}"
    if not questions:
        return None
    with measuring.executor.keeping_last():
        answered = _answers(measuring, arm, questions, folder)
    mixed = mixed_rows(model)
    return RowCheck(
        compared=tuple(
            found
            for question, outputs in answered
            if (found := _compared(model, question, outputs, folder, mixed, rounding)) is not None
        )
    )


def _tensors(ref: FeedRef) -> Feeds | None:
    """Return the inputs of a case; None if one of them is not a tensor."""
    feeds = feed_files.read_feeds(Path(ref.path))
    tensors = {name: value for name, value in feeds.items() if isinstance(value, np.ndarray)}
    return tensors if len(tensors) == len(feeds) else None


def _in_a_batch(model: ir.Model, case: Case, feeds: Feeds, seed: int) -> _Question | None:
    """Return the first row alone, and with other rows and as many rows of large values; None without a batch."""
    axes = {name: axis for name, axis in batch_axes(model).items() if name in feeds}
    sizes = {feeds[name].shape[axis] for name, axis in axes.items() if feeds[name].ndim > axis}
    if len(sizes) != 1 or 0 in sizes:
        return None
    made = make_feeds(model, case, seed=seed + 1, kind="extreme")
    if any(not isinstance(made[name], np.ndarray) for name in axes):
        return None
    rows = range(min(MOST_ROWS, *sizes))
    alone, among = dict(feeds), dict(feeds)
    for name, axis in axes.items():
        alone[name] = feeds[name].take([0], axis)
        others = np.asarray(made[name], feeds[name].dtype).take(rows, axis)
        among[name] = np.concatenate([feeds[name].take(rows, axis), others], axis)
    return _Question(by="batch", alone=alone, among=among, was=1, size=2 * len(rows))


def _padded(model: ir.Model, feeds: Feeds) -> _Question | None:
    """Return the first half of each row, with and without masked padding; None without a mask."""
    lengths = length_axes(model)
    if lengths is None or any(name not in feeds for name in lengths.axes):
        return None
    mask, axes = lengths.mask, lengths.axes
    sizes = {feeds[name].shape[axis] for name, axis in axes.items()}
    length = feeds[mask].shape[1]
    if sizes != {length} or length < LEAST_LENGTH or feeds[mask].dtype.kind not in "iufb":
        return None
    half = length // 2
    alone, among = dict(feeds), dict(feeds)
    for name, axis in axes.items():
        alone[name] = feeds[name].take(range(half), axis)
        padded = feeds[name].copy()
        rest = (*[slice(None)] * axis, slice(half, None))
        # A mask of ones has no effect, nor does one of zeros if ones mark padding.
        padded[rest] = 0 if name != mask or padded.flat[0] else 1
        among[name] = padded
    return _Question(by="padding", alone=alone, among=among, was=half, size=length)


def _answers(
    measuring: Measuring, arm: Arm, questions: Sequence[_Question], folder: Path
) -> list[tuple[_Question, Path]]:
    """Run the questions together, or else one at a time; return the questions that ran, with their output folders."""
    attempts = [questions, *([question] for question in questions)] if len(questions) > 1 else [questions]
    answered: list[tuple[_Question, Path]] = []
    for number, asked in enumerate(attempts):
        refs = []
        for question in asked:
            for name, feeds in zip(question.names, (question.alone, question.among), strict=True):
                place = folder / f"{name}-{number}"
                feed_files.write_feeds(place, dict(feeds))
                refs.append(FeedRef(name=name, path=str(place)))
        rows = replace(arm, name=f"rows-{arm.name}", feeds=tuple(refs))
        outcome = measuring.executor.untimed(rows)
        if isinstance(outcome, Measured):
            answered += [(question, Path(outcome.outputs_path)) for question in asked]
            if number == 0:
                break
    return answered


def _compared(
    model: ir.Model,
    question: _Question,
    outputs: Path,
    folder: Path,
    mixed: MixedRows,
    rounding: Callable[[OutputDifference], bool],
) -> RowDifference | None:
    """Return the difference between a row's outputs in both cases; None if no floating-point output has that row."""
    ours, theirs = (outputs / name for name in question.names)
    kept = [folder / f"{name}-row" for name in question.names]
    by_value = {name for name, how in output_comparisons(model).items() if how.kind == "values"}
    rows: list[tuple[tuple[str, str, Array], tuple[str, str, Array]]] = []
    for alone, among in zip(read_outputs(ours).values(), read_outputs(theirs).values(), strict=True):
        if alone.kind != "tensor" or family(alone.onnx_type) != "float" or alone.name not in by_value:
            continue
        arrays = load_array(alone.files[0]), load_array(among.files[0])
        row = _row(arrays, question)
        if row is not None:
            rows.append(((alone.name, alone.onnx_type, arrays[0]), (alone.name, alone.onnx_type, row)))
    if not rows:
        return None
    for place, values in zip(kept, zip(*rows, strict=True), strict=True):
        write_outputs(place, values)
    difference = compare_outputs(*kept, grids=output_grids(model))
    if difference.nonfinite_reference:
        return None
    return RowDifference(
        by=question.by,
        size=question.size,
        alone=question.was,
        outputs=difference,
        # With a node that mixes rows, a difference is more than rounding; without one, it may be rounding.
        differs=not (difference.ok or difference.silent)
        and (_known_cause(mixed, question.by) or not rounding(difference)),
    )


def _known_cause(mixed: MixedRows, by: RowQuestion) -> bool:
    return bool(mixed.ranges or (mixed.over_batch and by == "batch"))


def _row(arrays: tuple[Array, Array], question: _Question) -> Array | None:
    """Return the part of an output that corresponds to the row alone; None if it is uncertain which part does."""
    alone, among = arrays
    if alone.ndim != among.ndim or not alone.size:
        return None
    changed = [axis for axis in range(alone.ndim) if alone.shape[axis] != among.shape[axis]]
    sizes = {(alone.shape[axis], among.shape[axis]) for axis in changed}
    if sizes - {(question.was, question.size)} or (question.by == "batch" and len(changed) != 1):
        return None
    # Padding and the other rows come last.
    return among[tuple(slice(0, size) for size in alone.shape)]
