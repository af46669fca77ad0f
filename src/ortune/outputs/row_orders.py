"""Comparison of the order of selected rows: outputs of one selection move together, and sorted rows by ties only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ortune.graph.output_order import Roles, RowOrder
from ortune.outputs.figures import units_of
from ortune.outputs.files import Array, decode, family
from ortune.outputs.findings import Findings
from ortune.outputs.labels import NEAR, Scores
from ortune.outputs.rows import allowed_rows, row_pairs, row_table
from ortune.outputs.ways import limits_of

Pairs = list[tuple[list[int], list[int]]]
"""For each fixed index, the indices of matching rows in the reference and in the candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedRows:
    """An output with rows that a node selected.

    Attributes:
        name: Name of the output.
        roles: Role of each axis.
        order: The selection.
        by_element: Whether the output holds the sorted scores, whose places were compared one by one.
        arrays: Reference and candidate.
        types: Their ONNX types.
        tolerance: The user's tolerance; None if not given.
        scores: Returns the reference's scores by which the rows are sorted, or None.
    """

    name: str
    roles: Roles
    order: RowOrder
    by_element: bool
    arrays: tuple[Array, Array]
    types: tuple[str, str]
    tolerance: float | None
    scores: Callable[[], Scores | None]

    def tables(self) -> tuple[Array, Array]:
        """Return both sides as arrays of shape (fixed indices, rows, elements per row)."""
        old, new = (
            row_table(decode(np.asarray(a), t), self.roles)
            for a, t in zip(self.arrays, self.types, strict=True)
        )
        return old, new


def compare_row_orders(report: Findings, outputs: Sequence[SelectedRows]) -> None:
    """Compare outputs whose rows were each matched, but at other positions.

    The rows of one selection, such as the boxes and classes of detections, must have moved together. If the selection
    sorts by a score, only rows whose scores tie within rounding may be swapped.

    Args:
        report: Receives the findings.
        outputs: The outputs with selected rows, all of which agree row by row.
    """
    groups: dict[object, list[SelectedRows]] = defaultdict(list)
    for output in outputs:
        groups[output.order.key].append(output)
    for members in groups.values():
        _compare_group(report, members)


def _compare_group(report: Findings, members: Sequence[SelectedRows]) -> None:
    """Compare the outputs of one selection; those of another shape, of which rows were removed later, by themselves."""
    alike: dict[object, list[tuple[SelectedRows, tuple[Array, Array]]]] = defaultdict(list)
    for output in members:
        if not output.by_element:
            old, new = output.tables()
            alike[old.shape[:2], new.shape[:2]].append((output, (old, new)))
    for found in alike.values():
        outputs = [output for output, _ in found]
        pairs = _joint_pairs([tables for _, tables in found], outputs)
        old, new = found[0][1]
        rows = old.shape[0] * max(old.shape[1], new.shape[1])
        unmatched = rows - sum(len(at) for at, _ in pairs)
        called = [output.name for output in outputs]
        names = " and ".join(map(repr, called))
        # Each output may lack a counterpart of another row.
        accepted = sum(change.n_differing for change in report.accepted if change.output in called)
        if unmatched > max(accepted, allowed_rows(rows, scores_agree=report.floats > 0)):
            report.differ(
                f"outputs {names}: their rows match, but {unmatched} of {rows} belong together with others",
                unmatched,
                rows,
            )
            continue
        if outputs[0].order.is_sorted and any(at != to for at, to in pairs):
            _compare_sorted(report, names, pairs, rows, _room(outputs[0], members, old.shape[:2]))


def _joint_pairs(tables: Sequence[tuple[Array, Array]], outputs: Sequence[SelectedRows]) -> Pairs:
    """Match rows that are equal in all outputs."""
    columns = [_columns(*sides, output) for sides, output in zip(tables, outputs, strict=True)]
    old, new = (np.concatenate([part[side] for part in columns], axis=2) for side in (0, 1))
    unit = np.concatenate([units for _, _, units in columns])
    pairs = []
    for mine, theirs in zip(old, new, strict=True):
        at, to = list[int](), list[int]()
        for more_at, more_to in row_pairs(mine, theirs, unit):
            at, to = at + more_at, to + more_to
        pairs.append((at, to))
    return pairs


def _columns(old: Array, new: Array, output: SelectedRows) -> tuple[Array, Array, Array]:
    """Return both sides of an output as numbers, and the largest difference of matching numbers in each column."""
    width = old.shape[2]
    if family(output.types[0]) == "float":
        return old, new, units_of(old.reshape(-1, width), limits_of(output.types, output.tolerance)[1])
    # Equal numbers and texts get equal codes.
    _, codes = np.unique(np.concatenate([old.ravel(), new.ravel()]), return_inverse=True)
    numbers = codes.ravel().astype(np.float64)
    return (
        numbers[: old.size].reshape(old.shape),
        numbers[old.size :].reshape(new.shape),
        np.full(width, 0.5),
    )


@dataclass(frozen=True, slots=True)
class _Room:
    """Sorted scores of shape (fixed indices, rows), and the largest difference of tied scores for each fixed index."""

    scores: Array
    ties: Array


def _room(output: SelectedRows, members: Sequence[SelectedRows], shape: tuple[int, ...]) -> _Room | None:
    """Return the scores that sort rows: those of the selection, or an output computed from them; None if unknown."""
    limit, order, read = limits_of(output.types, output.tolerance)[0], output.order, output.scores()
    if read is not None and -read.values.ndim <= order.axis < read.values.ndim:
        values = np.moveaxis(read.values, order.axis, -1)
        if (values.size // max(values.shape[-1], 1), values.shape[-1]) == shape:
            ties = limit * np.abs(values.reshape(shape)).max(axis=1, initial=0.0)
            if read.moved is not None:
                moved = np.moveaxis(read.moved, order.axis, -1).reshape(shape)
                ties = np.maximum(ties, moved.max(axis=1, initial=0.0))
            return _Room(values.reshape(shape), ties)
    for member in members:
        if member.by_element:
            table = member.tables()[0]
            if table.shape == (*shape, 1):
                scores = table[:, :, 0]
                return _Room(scores, limit * np.abs(scores).max(axis=1, initial=0.0))
    return None


def _compare_sorted(report: Findings, names: str, pairs: Pairs, rows: int, room: _Room | None) -> None:
    """Check that the rows of the candidate are still sorted by the reference's scores, ties aside."""
    if room is None:
        moved = sum(i != j for at, to in pairs for i, j in zip(at, to, strict=True))
        report.differ(
            f"output {names}: {moved} of {rows} rows are at another position, and their scores cannot be read",
            moved,
            rows,
        )
        return
    swapped = 0
    for (at, to), scores, tie in zip(pairs, room.scores, room.ties, strict=True):
        if not at:
            continue
        falling = scores if scores[0] >= scores[-1] else -scores
        placed = falling[np.array(at)[np.argsort(to)]]
        largest_after = np.maximum.accumulate(placed[::-1])[::-1]
        swapped += int((placed < largest_after - NEAR * tie).sum())
    if swapped:
        report.differ(
            f"output {names}: {swapped} of {rows} rows come before rows with a better score", swapped, rows
        )
